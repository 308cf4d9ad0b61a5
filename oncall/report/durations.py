"""Spans of time and sums of money in words."""


def duration(seconds: float) -> str:
    """`42 s`, `4 m 12 s`, `3 h 05 m`."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} m {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} m"


def dollars(usd: float) -> str:
    """`$0.42` below ten dollars, whole dollars above."""
    return f"${usd:,.2f}" if usd < 10 else f"${usd:,.0f}"
