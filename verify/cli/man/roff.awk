# roff.awk - a README as the body of a man page: headings, paragraphs, lists, tables, and text indented by four spaces, which stays as it is.
# Links become their text. -v as=header: a C header instead, whose first comment is text, and all behind it stays as it is.
function escaped(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    return s ~ /^[.']/ ? "\\&" s : s
}
function inline(s,    out, n, part, i) {
    while (match(s, /\[[^]]*\]\([^)]*\)/)) {
        out = substr(s, RSTART, RLENGTH)
        sub(/^\[/, "", out)
        sub(/\]\([^)]*\)$/, "", out)
        s = substr(s, 1, RSTART - 1) out substr(s, RSTART + RLENGTH)
    }
    n = split(s, part, "`") # every second part is code
    out = ""
    for (i = 1; i <= n; i++) {
        s = escaped(part[i])
        if (i % 2) {
            gsub(/\*\*/, "", s)
            while (match(s, /\*[A-Za-z][^*]*\*/))
                s = substr(s, 1, RSTART - 1) "\\fI" substr(s, RSTART + 1, RLENGTH - 2) "\\fR" substr(s, RSTART + RLENGTH)
        }
        out = out (i % 2 ? s : "\\fB" s "\\fR")
    }
    return out ~ /^[.']/ ? "\\&" out : out
}
# Lines of a paragraph are one text, for a link or a word in italics may go on in the next.
function flush() {
    if (text != "")
        print inline(text)
    text = ""
}
function end_code() {
    if (code)
        print ".RE\n.fi"
    code = 0
}
function begin_code() {
    if (!code)
        print ".PP\n.nf\n.RS"
    code = 1
}
as == "header" && NR == 1 && /^\/\*/ { comment = 1; next }
as == "header" && comment && /^ \*\// {
    comment = 0
    flush()
    end_code()
    begin_code()
    next
}
as == "header" && comment { sub(/^ \* ?/, ""); }
as == "header" && !comment { print escaped($0); next }
/^    / {
    flush()
    begin_code()
    if (blank)
        print ""
    blank = 0
    print escaped(substr($0, 5))
    next
}
/^$/ { flush(); if (code) blank = 1; else gap = 1; next }
code { end_code(); gap = 1 }
{ blank = 0 }
/^# / { flush(); next }
/^## / { flush(); print ".SH " toupper(substr($0, 4)); gap = 0; next }
/^\|[-|]*\|$/ { next }
/^\|/ {
    flush()
    n = split($0, cell, / *\| */)
    if (!table++) # the headings
        next
    print ".TP\n.B " inline(cell[2])
    for (i = 3; i < n; i++)
        print inline(cell[i]) (i + 1 < n ? ";" : "")
    next
}
{ table = 0 }
/^- / { flush(); print ".IP \\(bu 2"; text = substr($0, 3); gap = 0; next }
{
    sub(/^ +/, "")
    if (gap)
        print ".PP"
    gap = 0
    text = text (text == "" ? "" : " ") $0
}
END { flush(); end_code() }
