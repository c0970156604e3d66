#!/bin/bash
# pages.sh PROGRAM VERSION DATE FOLDER - man pages and the completion for bash, from the program's own tables of options, the headers
# and READMEs: treeattn.1, treeattn.3, treeattn_plugin.3, treeattn-child.7, and treeattn.bash. Run from the top of the source tree.
set -eu
program=$1 version=$2 date=$3 out=$4
here=verify/cli/man
mkdir -p "$out"
commands=$("$program" --help=words)
head_line() { printf '.TH %s %s %s "treeattn %s" "%s"\n' "$1" "$2" "$date" "$version" "$3"; }
# The plug-in that verify/child/README.md shows, to be copied from the page.
plugin() { sed -n '/^    #include "treeattn_plugin.h"/,/^    gcc/p' verify/child/README.md | grep -v '^    gcc'; }
{
    head_line TREEATTN 1 "User Commands"
    awk -f $here/roff.awk $here/intro.md
    echo '.SH COMMANDS'
    for command in $commands; do "$program" "$command" --help=man | sed 's|verify/child/README\.md|treeattn-child(7)|g'; done
    { cat $here/plugin.md; plugin; cat $here/end.md; } | awk -f $here/roff.awk
} >"$out/treeattn.1"
header() { # HEADER NAME SECTION WHAT
    head_line "$(tr '[:lower:]' '[:upper:]' <<<"$2")" 3 "Library Functions"
    printf '.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n' "$2" "$3"
    awk -v as=header -f $here/roff.awk "$1"
    printf '.RE\n.fi\n.SH SEE ALSO\n.BR treeattn (1), treeattn-child (7)\n'
}
header sim/engine/treeattn.h treeattn "block tables of a serving engine to plans of tree attention" >"$out/treeattn.3"
header verify/child/treeattn_plugin.h treeattn_plugin "a kernel of your own, to be judged" >"$out/treeattn_plugin.3"
{
    head_line TREEATTN-CHILD 7 "Miscellaneous"
    printf '.SH NAME\ntreeattn\\-child \\- kernels that treeattn judges, in processes of their own\n.SH DESCRIPTION\n'
    # as it is where it is installed
    sed -e 's| -I verify/child||; s|build/treeattn|treeattn|g; s|verify/README.md|& of the sources|g; s|PYTHONPATH=verify/child|PYTHONPATH=PREFIX/share/treeattn|' verify/child/README.md |
        awk -f $here/roff.awk
} >"$out/treeattn-child.7"
{
    echo '# bash completion for treeattn; made from its tables of options'
    echo 'declare -gA _treeattn_options'
    for command in $commands; do
        printf "_treeattn_options[%s]='" "$command"
        "$program" "$command" --help=words | tr "'" '?'
        echo "'"
    done
    sed "s/@COMMANDS@/$(tr '\n' ' ' <<<"$commands")/" $here/completion.bash
} >"$out/treeattn.bash"
