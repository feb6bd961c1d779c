"""The virtual NPU as a PyTorch device: ``torch.ones(3, device="vnpu")``.

``import torch`` loads this package through the entry point ``torch.backends``. Loading registers the device and
starts nothing; the device process starts with the first tensor.
"""


def _autoload() -> None:
    """Entry point of ``import torch``: importing this module did the work. Never raises."""


_error: str | None = None  # why the device could not be registered; raised at first use


def _load() -> str | None:
    """Registers the device with torch; returns why it cannot be, in one line."""
    import torch

    try:
        from ._build_info import TORCH_VERSION
    except ImportError:
        return "torch_vnpu was not built: `pip install --no-build-isolation .` in the source folder builds it"
    found = torch.__version__.split("+")[0]
    if found.split(".")[:2] != TORCH_VERSION.split(".")[:2]:
        return (
            f"torch_vnpu was built for torch {TORCH_VERSION} and this is torch {found}: build it again "
            "(`pip install --no-build-isolation .`) or install the other torch"
        )
    try:
        from . import _C  # noqa: F401
    except ImportError as error:
        return f"torch_vnpu cannot load its library: {error}"
    from . import vnpu as module

    torch.utils.rename_privateuse1_backend("vnpu")
    torch._register_device_module("vnpu", module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    module._patch_dlpack()
    module._patch_printing()
    module._register_exit()
    return None


class _Unavailable:
    """Stands for ``torch.vnpu`` when the device could not be loaded: every use tells why, and the rest of torch works."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def is_available(self) -> bool:
        return False

    def device_count(self) -> int:
        return 0

    def is_initialized(self) -> bool:
        return False

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Nothing to seed; torch.manual_seed calls this."""

    def _lazy_init(self) -> None:
        raise RuntimeError(self._reason)  # the first device operation

    def __getattr__(self, name: str):
        raise AttributeError(self._reason if not name.startswith("_") else name)


def _start() -> None:
    """Loads the device; a failure is kept, printed once, and raised at first use: `import torch` must not fail."""
    global _error
    try:
        _error = _load()
    except Exception as error:  # whatever it is, torch itself must stay usable
        _error = f"torch_vnpu failed to load: {type(error).__name__}: {error}"
    if _error is not None:
        import sys
        import warnings

        warnings.warn(_error, stacklevel=2)
        torch = sys.modules.get("torch")
        if torch is None:  # not installed: `python -m torch_vnpu.diagnose` can still say so
            return
        if not hasattr(torch, "vnpu"):
            torch.utils.rename_privateuse1_backend("vnpu")
            torch._register_device_module("vnpu", _Unavailable(_error))


_start()


def __getattr__(name: str):
    """`profile` and `__version__` come when they are asked for."""
    if name == "profile":
        from .profile import profile

        globals()["profile"] = profile  # the class, not the submodule of the same name
        return profile
    if name == "__version__":
        from ._build_info import VERSION

        return VERSION
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
