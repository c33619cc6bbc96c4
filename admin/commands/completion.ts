import type { Command, Option } from "commander";
import { usualFormats } from "../terminal/output.ts";

/** The shells that `svc-admin completion` knows. */
export type CompletionShell = "bash" | "zsh" | "fish";

const bash = `_svc_admin() {
  local IFS=$'\\n'
  COMPREPLY=($(svc-admin __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o default -F _svc_admin svc-admin
`;

/** The script of each shell, which evaluates it once. It asks this program for the words that fit at the cursor. */
export const completionScripts: Readonly<Record<CompletionShell, string>> = {
  bash,
  // Through its own emulation of bash.
  zsh: `autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n${bash}`,
  fish: "complete -c svc-admin -f -a '(svc-admin __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'\n",
};

/** Returns the lines that fit in place of the last of `words`: a word, and after a tab the summary of a command. */
export const completionsOf = (
  program: Command,
  formatsOf: ReadonlyMap<Command, readonly string[]>,
  words: readonly string[],
): string[] => {
  const { command, hasArguments, valued, given } = follow(program, words.slice(0, -1));
  const choicesOf = ({ long, argChoices = [] }: Option) =>
    long === "--output" ? (formatsOf.get(command) ?? usualFormats) : argChoices;
  const offered = valued
    ? choicesOf(valued)
    : [
        ...(hasArguments ? [] : firstWords(command)),
        ...(hasArguments && command === program ? [] : flagsOf(program, command, given)),
      ];
  return offered.filter((line) => line.startsWith(words.at(-1) ?? ""));
};

/** Follows words as the parser does: each one belongs to the command, is the value of a flag of that command, or an argument. */
const follow = (program: Command, words: readonly string[]) => {
  let command = program;
  let hasArguments = false;
  /** The option whose value comes next. */
  let valued: Option | undefined;
  const given: Option[] = [];
  for (const word of words) {
    const next = hasArguments ? undefined : command.commands.find((each) => each.name() === word);
    if (valued !== undefined) valued = undefined;
    else if (word.startsWith("-")) {
      const options = [...command.options, ...program.options];
      const option = options.find(({ long, short }) => long === word || short === word);
      if (option?.required) valued = option;
      if (option) given.push(option);
    } else if (next === undefined) hasArguments = true;
    else command = next;
  }
  return { command, hasArguments, valued, given };
};

const firstWords = (command: Command) => [
  ...command.commands.map((each) => `${each.name()}\t${each.description()}`),
  ...command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
];

/** Returns the flags of a command, without those that a given one excludes; none of a group. */
const flagsOf = (program: Command, command: Command, given: readonly Option[]) => {
  // A command with an argument may have others below it.
  const isGroup = command.commands.length > 0 && command.registeredArguments.length === 0;
  if (isGroup && command !== program) return [];
  const shared = program.options.filter(({ long }) => command === program || long !== "--version");
  const allowed = command.options.filter(
    (option) => !given.some((each) => excludes(each, option) || excludes(option, each)),
  );
  const flags = [...allowed, ...shared].flatMap(({ long }) => long ?? []);
  return [...new Set([...flags, "--help"])];
};

/** The typed interface of commander leaves out which options an option excludes. */
const excludes = (option: Option, other: Option) =>
  (option as Option & { conflictsWith: readonly string[] }).conflictsWith.includes(
    other.attributeName(),
  );
