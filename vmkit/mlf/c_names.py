"""Names as identifiers of C that mean nothing else there."""

from __future__ import annotations

__all__ = ["MATH", "c_function_name", "c_name"]

_MATH_NAMES = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor fma fmax
fmin fmod hypot ldexp lgamma log log10 log1p log2 logb nearbyint nextafter pow remainder rint round sin sinh
sqrt tan tanh tgamma trunc
"""
MATH = frozenset(_MATH_NAMES.split())
"""Of math.h, the functions that have the form for float with an f behind their names."""

_KEYWORDS_NAMES = """
auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
main errno int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t memcpy memset INFINITY NAN
asm and or not xor bool true false class new delete template this namespace private public
NULL EOF RAND_MAX HUGE_VAL HUGE_VALF EXIT_SUCCESS EXIT_FAILURE stdin stdout stderr
"""
_KEYWORDS = frozenset(_KEYWORDS_NAMES.split())

# The other functions of C99's stdlib.h, string.h, math.h, stdio.h, time.h, signal.h and setjmp.h. Firmware is linked
# with them, so that no function of another meaning may have their names.
_LIBRARY_NAMES = """
_Exit abort abs atexit atof atoi atol atoll bsearch calloc div exit free getenv labs ldiv llabs lldiv malloc mblen
mbstowcs mbtowc qsort rand realloc srand strtod strtof strtol strtold strtoll strtoul strtoull system wcstombs wctomb
memchr memcmp memmove strcat strchr strcmp strcoll strcpy strcspn strerror strlen strncat strncmp strncpy strpbrk
strrchr strspn strstr strtok strxfrm
fdim fpclassify frexp ilogb isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal
isunordered llrint llround lrint lround modf nan nexttoward remquo scalbln scalbn signbit
clearerr fclose feof ferror fflush fgetc fgetpos fgets fopen fprintf fputc fputs fread freopen fscanf fseek fsetpos
ftell fwrite getc getchar gets perror printf putc putchar puts remove rename rewind scanf setbuf setvbuf snprintf
sprintf sscanf tmpfile tmpnam ungetc vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf
asctime clock ctime difftime gmtime localtime mktime raise setjmp longjmp signal strftime time
"""
_LIBRARY = frozenset(_LIBRARY_NAMES.split())


def c_name(name: str) -> str:
    """Return an identifier of C that resembles a name.

    >>> c_name("conv/1:0"), c_name("0"), c_name("double")
    ('conv_1_0', '_0', 'double_')
    """
    made = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "_"
    made = f"_{made}" if made[0].isdigit() else made
    is_taken = made in _KEYWORDS or made.removesuffix("f") in MATH or made in MATH
    return f"{made}_" if is_taken else made


def c_function_name(name: str) -> str:
    """Return an identifier of C that resembles a name and that no function of the C library has.

    >>> c_function_name("relu"), c_function_name("abs"), c_function_name("expl")
    ('relu', 'abs_', 'expl_')
    """
    made = c_name(name)
    plain = {made, made.removesuffix("f"), made.removesuffix("l")}
    return f"{made}_" if plain & (_LIBRARY | MATH) else made
