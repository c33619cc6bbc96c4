import { formats } from "../terminal/output.ts";

/** A command for completion: its words, such as `policies create`, and its options. */
export interface Completed {
  words: string;
  summary: string;
  flags: readonly Flag[];
}

/** An option of a command; `choices` are the values that it takes, where they are few. */
export interface Flag {
  name: string;
  takesValue: boolean;
  choices: readonly string[];
}

/** The shells that `svc-admin completion` knows. */
export type Shell = "bash" | "zsh" | "fish";

const globalFlags: readonly Flag[] = [
  { name: "--url", takesValue: true, choices: [] },
  { name: "--output", takesValue: true, choices: formats },
  { name: "-o", takesValue: true, choices: formats },
  { name: "--yes", takesValue: false, choices: [] },
  { name: "--help", takesValue: false, choices: [] },
];

/** Returns the script that completes commands and options in a shell; the shell evaluates it once. */
export const completionScript = (shell: Shell, commands: readonly Completed[]): string =>
  shell === "fish" ? fishScript(commands) : bashScript(shell, commands);

/**
 * Bash, and zsh through its own emulation. Words after a whole command are its arguments, so the longest known beginning decides. Summaries
 * are left out: the words contain nothing that a shell expands.
 */
const bashScript = (shell: "bash" | "zsh", commands: readonly Completed[]): string => {
  const groups = [...groupsOf(commands)].map(([prefix, names]) => `    "${prefix}") words="${names.join(" ")}" ;;`);
  const leaves = commands.map(({ words, flags }) => {
    const own = [...flags, ...globalFlags].map(({ name }) => name).filter((name) => name.startsWith("--"));
    return `    "${words}") words="${own.join(" ")}" ;;`;
  });
  const known = [...globalFlags, ...commands.flatMap(({ flags }) => flags)].filter(({ takesValue }) => takesValue);
  const values = Map.groupBy(known, ({ name }) => name);
  const choices = [...values].flatMap(([name, flags]) => {
    const words = [...new Set(flags.flatMap((flag) => flag.choices))];
    return words.length === 0 ? [] : [`  ${name}) words="${words.join(" ")}" ;;`];
  });
  return `${shell === "zsh" ? "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" : ""}_svc_admin() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" words="" index word known
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    case "$word" in
    ${[...values.keys()].join("|")}) index=$((index + 1)) ;;
    -*) ;;
    *) path="\${path:+$path }$word" ;;
    esac
  done
  case "\${COMP_WORDS[COMP_CWORD - 1]}" in
${choices.join("\n")}
  ${[...values.keys()].join("|")}) ;;
  *) while :; do
    known=1
    case "$path" in
${[...groups, ...leaves].join("\n")}
    *) known=0 ;;
    esac
    if [ "$known" = 1 ]; then break; fi
    case "$path" in *" "*) path="\${path% *}" ;; *) break ;; esac
  done ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _svc_admin svc-admin
`;
};

const fishScript = (commands: readonly Completed[]): string => {
  const quoted = (text: string) => `'${text.replaceAll("'", "\\'")}'`;
  const option = (when: string, { name, takesValue, choices }: Flag) => {
    const value = choices.length > 0 ? ` -xa ${quoted(choices.join(" "))}` : " -r";
    const named = name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`;
    return `complete -c svc-admin${when} ${named}${takesValue ? value : ""}`;
  };
  const groups = groupsOf(commands);
  const lines = commands.flatMap(({ words, summary, flags }) => {
    const [group = "", name] = words.split(" ");
    const inGroup = `__fish_seen_subcommand_from ${group}`;
    const whole = name === undefined ? inGroup : `${inGroup}; and __fish_seen_subcommand_from ${name}`;
    return [
      `complete -c svc-admin -n __fish_use_subcommand -a ${group}${name === undefined ? ` -d ${quoted(summary)}` : ""}`,
      ...(name === undefined
        ? []
        : [
            `complete -c svc-admin -n ${quoted(`${inGroup}; and not __fish_seen_subcommand_from ${groups.get(group)?.join(" ")}`)} -a ${name} -d ${quoted(summary)}`,
          ]),
      ...flags.map((flag) => option(` -n ${quoted(whole)}`, flag)),
    ];
  });
  const shared = globalFlags.map((flag) => option("", flag));
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
