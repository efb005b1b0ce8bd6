"""Names that an address could be taken in by."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.unit.fuzz.payloads import ANY_TEXT

HOSTILE = (
    *(
        "",
        " ",
        ".",
        "..",
        "...",
        "../",
        "../../v2/guess",
        "..%2f..%2f",
        "%2e%2e",
        "%2e%2e%2f",
        "/",
        "//",
        "//evil.example.com",
    ),
    *(
        "a/b",
        "a%2fb",
        "a?b=c",
        "a#b",
        "a&b=c",
        "a;b",
        "a=b",
        "a+b",
        "a b",
        " a",
        "a ",
        "%",
        "%%",
        "%00",
        "%zz",
        "%E9",
    ),
    *(
        "\0",
        "\n",
        "a\r\nX-Injected: yes",
        "\t",
        "\\",
        "..\\..\\",
        "\x7f",
        "\x80",
        "\xe9",
        "e\u0301",
        "\u2028",
        "\u202e",
    ),
    *(
        "\U0001f600",
        "\ud800",
        "a\udfff",
        "\u0661\u0662",
        "@",
        "user:pw@evil.example.com",
        "http://evil.example.com/",
        ":80",
        "[::1]",
    ),
    *(
        "x" * 100,
        "x" * 5000,
        "é" * 1000,
        "~",
        "*",
        "!",
        "'",
        '"',
        "<script>",
        "{}",
        "|",
        "^",
        "`",
        "messages",
        "lease",
    ),
)
ANY_NAME = (
    st.sampled_from(HOSTILE)
    | ANY_TEXT.map(lambda text: text[:2000])
    | st.text("./%?#&=;+2eEfF \\:@", max_size=12)
)


def sendable(text: str) -> bool:
    return bool(text.strip()) and text.encode(errors="ignore").decode() == text
