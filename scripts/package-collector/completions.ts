import { commands } from "#collector/commands/command-line.ts";

/** One command with its flags. */
interface Completed {
  name: string;
  summary: string;
  /** Names without dashes; those with `takesValue` complete with a path. */
  flags: readonly { name: string; takesValue: boolean }[];
}

const readCommands = (): Promise<Completed[]> =>
  Promise.all(
    Object.entries(commands).map(async ([name, { summary, load }]) => {
      const { flags } = await load();
      const own = Object.entries(flags).map(([flag, kind]) => ({
        name: flag,
        takesValue: kind === "text",
      }));
      const common = ["json", "help"].map((flag) => ({ name: flag, takesValue: false }));
      return { name, summary, flags: [...own, ...common] };
    }),
  );

/** Returns completion scripts by shell, generated from the commands, so that they have every flag. */
export const createCompletions = async (): Promise<Record<"bash" | "zsh" | "fish", string>> => {
  const known = await readCommands();
  return { bash: bash(known), zsh: zsh(known), fish: fish(known) };
};

const bash = (known: readonly Completed[]): string => `_svc_collector() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} flags=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${known.map(({ name }) => name).join(" ")} --help --version" -- "$current"))
    return
  fi
  case \${COMP_WORDS[1]} in
${known.map(({ name, flags }) => `    ${name}) flags="${flags.map((flag) => `--${flag.name}`).join(" ")}" ;;`).join("\n")}
  esac
  case $previous in
    ${valueFlags(known).join(" | ")}) COMPREPLY=($(compgen -f -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
  esac
}
complete -o filenames -F _svc_collector svc-collector
`;

const valueFlags = (known: readonly Completed[]): string[] => [
  ...new Set(
    known.flatMap(({ flags }) =>
      flags.filter((flag) => flag.takesValue).map((flag) => `--${flag.name}`),
    ),
  ),
];

const zsh = (known: readonly Completed[]): string => `#compdef svc-collector
local -a commands=(
${known.map(({ name, summary }) => `  '${name}:${summary}'`).join("\n")}
)
if (( CURRENT == 2 )); then
  _describe command commands
  return
fi
case $words[2] in
${known
  .map(({ name, flags }) => {
    const specs = flags.map(
      (flag) => `'--${flag.name}${flag.takesValue ? "[]:value:_files" : "[]"}'`,
    );
    return `  ${name}) _arguments ${specs.join(" ")} ;;`;
  })
  .join("\n")}
esac
`;

const fish = (known: readonly Completed[]): string => {
  const lines = ["complete -c svc-collector -f"];
  for (const { name, summary, flags } of known) {
    lines.push(`complete -c svc-collector -n __fish_use_subcommand -a ${name} -d '${summary}'`);
    for (const flag of flags)
      lines.push(
        `complete -c svc-collector -n '__fish_seen_subcommand_from ${name}' -l ${flag.name}${flag.takesValue ? " -r -F" : ""}`,
      );
  }
  return `${lines.join("\n")}\n`;
};
