/* docs/config.md is what the schema says. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_config.h"

Test(config_page, the_page_is_up_to_date) {
    FILE *file = fopen(VNPU_SOURCE_DIR "/docs/config.md", "r");
    cr_assert_not_null(file);
    char page[65536];
    size_t bytes = fread(page, 1, sizeof page - 1, file);
    page[bytes] = '\0';
    cr_assert_eq(fclose(file), 0);
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    cr_assert_not_null(stream);
    sim_config_write_reference(stream);
    cr_assert_eq(fclose(stream), 0);
    cr_assert_eq(strcmp(page, text), 0,
                 "docs/config.md is old: write it again with `vnpu config reference`");
    free(text);
}
