import { usualFormats } from "../terminal/output.ts";

/** A command for completion: its words, such as `policies create`, its options, and the values of its argument where they are few. */
export interface Completed {
  words: string;
  summary: string;
  flags: readonly Flag[];
  choices: readonly string[];
  /** The values of `-o`, where they are not the usual ones. */
  formats: readonly string[];
}

/** An option of a command; `choices` are the values that it takes, where they are few, `conflicts` the flags that it excludes. */
interface Flag {
  name: string;
  takesValue: boolean;
  choices: readonly string[];
  conflicts: readonly string[];
}

/** The shells that `svc-admin completion` knows. */
export type CompletionShell = "bash" | "zsh" | "fish";

const globalFlags: readonly Flag[] = [
  { name: "--url", takesValue: true, choices: [], conflicts: [] },
  { name: "--output", takesValue: true, choices: usualFormats, conflicts: [] },
  { name: "-o", takesValue: true, choices: usualFormats, conflicts: [] },
  { name: "--yes", takesValue: false, choices: [], conflicts: [] },
  { name: "--help", takesValue: false, choices: [], conflicts: [] },
];

/** Returns the script that completes commands and options in a shell; the shell evaluates it once. */
export const completionScript = (
  shell: CompletionShell,
  commands: readonly Completed[],
): string => {
  const all = commands.map((command) => ({
    ...command,
    flags: [...command.flags, ...outputFlags(command)],
  }));
  return shell === "fish" ? fishScript(all) : bashScript(shell, all);
};

const outputFlags = ({ formats }: Completed): Flag[] =>
  formats.length === 0
    ? []
    : ["--output", "-o"].map((name) => ({
        name,
        takesValue: true,
        choices: formats,
        conflicts: [],
      }));

/**
 * Bash, and zsh through its own emulation. The script follows the words as the parser does: each one belongs to the command, is the value of
 * a flag of that command, or an argument. So it offers only what the command accepts. Summaries are left out: the words contain nothing that
 * a shell expands.
 */
const bashScript = (shell: "bash" | "zsh", commands: readonly Completed[]) => {
  const words = (pattern: string, list: readonly string[]) =>
    `    ${pattern}) words="${list.join(" ")}" ;;`;
  const flagsOf = ({ words: command, flags }: Completed) =>
    flags.map((flag) => ({ command, ...flag }));
  const own = commands.flatMap(flagsOf).filter(({ takesValue }) => takesValue);
  const shared = globalFlags.filter(({ takesValue }) => takesValue);
  const patterns = [
    ...own.map(({ command, name }) => `"${command} ${name}"`),
    ...shared.map(({ name }) => `*" ${name}"`),
  ];
  const values = [
    ...own.map(({ command, name, choices }) => words(`"${command} ${name}"`, choices)),
    ...shared.map(({ name, choices }) => words(`*" ${name}"`, choices)),
  ];
  const long = (flags: readonly Flag[]) =>
    flags.map(({ name }) => name).filter((name) => name.startsWith("--"));
  const groups = [...groupsOf(commands)].map(([prefix, names]) =>
    words(`"${prefix}"`, prefix === "" ? [...names, "--version", ...long(globalFlags)] : names),
  );
  const leaves = commands.flatMap(({ words: command, flags, choices }) => {
    const offered = [...new Set(long([...flags, ...globalFlags]))];
    return choices.length === 0
      ? [words(`"${command}"|"${command} "*`, offered)]
      : [words(`"${command}"`, [...choices, ...offered]), words(`"${command} "*`, offered)];
  });
  const conflicts = commands.flatMap(({ words: command, flags }) =>
    flags.flatMap(({ name, conflicts: excluded }) =>
      excluded.map(
        (each) =>
          `  case "$command:$given" in "${command}:"*" ${name} "*) words="\${words/ ${each} / }" ;; esac`,
      ),
    ),
  );
  const commandPattern = commands.map(({ words: command }) => `"${command}"`).join("|");
  return `${shell === "zsh" ? "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" : ""}_svc_admin() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="" command="" arguments="" given=" " words="" index word
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    case "$command $previous" in
    ${patterns.join("|")}) previous=""; continue ;;
    esac
    previous="$word"
    case "$word" in
    -*) given="$given$word " ;;
    *) case "$command" in
      ${commandPattern}) arguments=" $word" ;;
      *) command="\${command:+$command }$word" ;;
      esac ;;
    esac
  done
  case "$command $previous" in
${values.join("\n")}
    *) case "$command$arguments" in
${[...groups, ...leaves].join("\n")}
    esac ;;
  esac
  words=" $words "
${conflicts.join("\n")}
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _svc_admin svc-admin
`;
};

const fishScript = (commands: readonly Completed[]) => {
  const quoted = (text: string) => `'${text.replaceAll("'", "\\'")}'`;
  const option = (when: string, { name, takesValue, choices }: Omit<Flag, "conflicts">) => {
    const value = choices.length > 0 ? ` -xa ${quoted(choices.join(" "))}` : " -r";
    const named = name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`;
    return `complete -c svc-admin${when} ${named}${takesValue ? value : ""}`;
  };
  const groups = groupsOf(commands);
  const lines = commands.flatMap(({ words, summary, flags, choices }) => {
    const [group = "", name] = words.split(" ");
    const inGroup = `__fish_seen_subcommand_from ${group}`;
    const whole =
      name === undefined ? inGroup : `${inGroup}; and __fish_seen_subcommand_from ${name}`;
    return [
      `complete -c svc-admin -n __fish_use_subcommand -a ${group}${name === undefined ? ` -d ${quoted(summary)}` : ""}`,
      ...(name === undefined
        ? []
        : [
            `complete -c svc-admin -n ${quoted(`${inGroup}; and not __fish_seen_subcommand_from ${groups.get(group)?.join(" ")}`)} -a ${name} -d ${quoted(summary)}`,
          ]),
      ...choices.map((choice) => {
        const first = `${whole}; and not __fish_seen_subcommand_from ${choices.join(" ")}`;
        return `complete -c svc-admin -n ${quoted(first)} -a ${choice}`;
      }),
      ...flags.map((flag) => {
        const excluding = flags.filter(({ conflicts }) => conflicts.includes(flag.name));
        const without = excluding.map(
          ({ name: each }) => `; and not __fish_contains_opt ${each.slice(2)}`,
        );
        return option(` -n ${quoted(`${whole}${without.join("")}`)}`, flag);
      }),
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
