import { formats } from "../terminal/output.ts";

/** A command for completion: its words, such as `policies create`, and its options. */
export interface Completed {
  words: string;
  summary: string;
  flags: readonly string[];
}

/** The shells that `svc-admin completion` knows. */
export type Shell = "bash" | "zsh" | "fish";

const globalFlags = ["--url", "--output", "--yes", "--help"];

/** Returns the script that completes commands and options in a shell; the shell evaluates it once. */
export const completionScript = (shell: Shell, commands: readonly Completed[]): string =>
  shell === "fish" ? fishScript(commands) : bashScript(shell, commands);

/** Bash, and zsh through its own emulation. Summaries are left out: the words contain nothing that a shell expands. */
const bashScript = (shell: "bash" | "zsh", commands: readonly Completed[]): string => {
  const cases = [...groupsOf(commands)].map(([prefix, names]) => `    "${prefix}") words="${names.join(" ")}" ;;`);
  const flags = commands.map(
    ({ words, flags }) => `    "${words}") words="${[...flags, ...globalFlags].join(" ")}" ;;`,
  );
  return `${shell === "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : ""}_svc_admin() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" words="" index
  for ((index = 1; index < COMP_CWORD; index++)); do
    case "\${COMP_WORDS[index]}" in -*) ;; *) path="\${path:+$path }\${COMP_WORDS[index]}" ;; esac
  done
  if [ "\${COMP_WORDS[COMP_CWORD - 1]}" = "-o" ] || [ "\${COMP_WORDS[COMP_CWORD - 1]}" = "--output" ]; then
    words="${formats.join(" ")}"
  else case "$path" in
${[...cases, ...flags].join("\n")}
  esac fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _svc_admin svc-admin
`;
};

const fishScript = (commands: readonly Completed[]): string => {
  const lines = commands.flatMap(({ words, summary, flags }) => {
    const [group = "", name] = words.split(" ");
    const shown = `-d '${summary.replaceAll("'", "\\'")}'`;
    const when = name === undefined ? "__fish_use_subcommand" : `__fish_seen_subcommand_from ${group}`;
    return [
      ...(name === undefined ? [] : [`complete -c svc-admin -n __fish_use_subcommand -a ${group}`]),
      `complete -c svc-admin -n '${when}' -a ${name ?? group} ${shown}`,
      ...flags.map(
        (flag) => `complete -c svc-admin -n '__fish_seen_subcommand_from ${name ?? group}' -l ${flag.slice(2)}`,
      ),
    ];
  });
  const shared = globalFlags.map((flag) => `complete -c svc-admin -l ${flag.slice(2)}`);
  return `complete -c svc-admin -f\n${[...new Set([...lines, ...shared])].join("\n")}\n`;
};

/** The next words of each beginning of a command. */
const groupsOf = (commands: readonly Completed[]): ReadonlyMap<string, string[]> => {
  const groups = new Map<string, string[]>([["", []]]);
  for (const { words } of commands) {
    const [group = "", name] = words.split(" ");
    const first = groups.get("") ?? [];
    if (!first.includes(group)) first.push(group);
    if (name !== undefined) groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  return groups;
};
