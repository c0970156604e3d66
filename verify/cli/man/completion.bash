# A line of _treeattn_options[COMMAND]: --option VALUE word word ..
_treeattn()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} line
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W '@COMMANDS@ --help --version' -- "$word")
        return
    fi
    [ "$before" = = ] && before=${COMP_WORDS[COMP_CWORD - 2]}
    [ "$word" = = ] && word=
    line=$(grep -E -- "^$before [A-Z]" <<<"${_treeattn_options[$command]}")
    # shellcheck disable=SC2086 # its words
    set -- $line
    if [ $# -gt 2 ]; then
        shift 2
        mapfile -t COMPREPLY < <(compgen -W "$*" -- "$word")
    elif [ "$before" = --strategy ] || [ "$before" = --kernel ] || [ "$before" = --machine ]; then
        local list=strategies
        [ "$before" = --kernel ] && list=kernels
        [ "$before" = --machine ] && list=machines
        mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" list $list --csv 2>/dev/null | tail -n +2 | cut -d, -f1)" -- "$word")
    elif [ $# = 2 ]; then
        [[ $2 == *FILE* || $2 == FOLDER ]] && mapfile -t COMPREPLY < <(compgen -f -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -W "$(cut -d' ' -f1 <<<"${_treeattn_options[$command]}") --help" -- "$word")
    fi
}
complete -o filenames -F _treeattn treeattn
