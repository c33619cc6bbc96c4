import { Argument, Command, CommanderError, Option } from "commander";
import { FleetError, type Problem } from "#client/problem.ts";
import packageJson from "#package.json" with { type: "json" };
import type { CoreProblemCode } from "#proto/gen/problem-codes.ts";
import type { CompletionShell } from "./commands/completion.ts";
import { adminCommands, summaryOfGroup } from "./commands/index.ts";
import { describeProblem, isUnanswered } from "./terminal/describe-problem.ts";
import { ActionFailure, type AdminExitCode, exitCodes } from "./terminal/exit-codes.ts";
import { plainLines, telemetryFormats, usualFormats } from "./terminal/output.ts";
import type { Terminal } from "./terminal/terminal.ts";

/** The width of help that goes to a file. */
const helpColumns = 80;

/** Runs one command line and returns its exit code (docs/admin.md). Data goes to stdout, everything else to stderr. */
export const runAdmin = async (args: readonly string[], given: Terminal): Promise<number> => {
  // Messages quote the server.
  const write = (text: string) => given.err.write(plainLines(text));
  const terminal: Terminal = { ...given, err: { write } };
  let exitCode: AdminExitCode = exitCodes.ok;
  const program = new Command("svc-admin")
    .description(
      "Administers a collector fleet: policies, tokens, configs, hosts and the audit log",
    )
    .version(packageJson.version)
    .option("--url <url>", "address of the fleet; else SVC_ADMIN_URL, else that of the session")
    .addOption(
      new Option("-o, --output <format>", "format of the output")
        .choices([...new Set([...usualFormats, ...telemetryFormats])])
        .default("table"),
    )
    .option("-y, --yes", "answer questions with yes", false)
    .showHelpAfterError("(svc-admin --help lists the commands)")
    // Of 40 columns for a description, commander's own, a terminal of 72 has not enough beside the longest command.
    .configureHelp({ minWidthToWrap: 30 })
    .configureOutput({
      writeOut: (text) => terminal.out.write(text),
      writeErr: (text) => terminal.err.write(text),
      getOutHelpWidth: () => terminal.out.columns ?? helpColumns,
      getErrHelpWidth: () => terminal.out.columns ?? helpColumns,
    })
    .exitOverride();
  const formatsOf = new Map<Command, readonly string[]>();
  for (const { path, summary, options, formats, load } of adminCommands) {
    const command = commandAt(program, path).description(summary);
    for (const option of options) command.addOption(option);
    if (formats !== usualFormats) formatsOf.set(command, formats);
    command.action(async (...received: unknown[]) => {
      const names = received.slice(0, -2).flat() as string[];
      const isDefault = program.getOptionValueSource("output") === "default";
      const format = isDefault ? formats[0] : program.getOptionValue("output");
      if (!formats.includes(format))
        command.error(
          `error: option '-o, --output <format>' of this command is one of ${formats.join(", ")}.`,
        );
      const work = await load();
      exitCode =
        (await work(terminal, { ...command.optsWithGlobals(), format }, ...names)) ?? exitCodes.ok;
    });
  }
  addCompletion(program, terminal);
  try {
    if (args[0] === "__complete") await printCompletions(terminal, program, formatsOf, args);
    else await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    const failure = failureOf(error, terminal);
    const command = args.find((arg) => program.commands.some((each) => each.name() === arg));
    // With `plan`, 2 means a difference, after which a job may continue.
    return failure === exitCodes.usage && command === "plan" ? exitCodes.refused : failure;
  }
};

/** Returns the new command of a path, in its group: `policies show <policy>` is in `policies`. */
const commandAt = (program: Command, path: string): Command => {
  const words = path.split(" ");
  if (words.length === 1 || /^[<[]/.test(words[1] ?? "")) return program.command(path);
  const [group = "", ...rest] = words;
  const parent =
    program.commands.find((each) => each.name() === group) ??
    program.command(group).description(summaryOfGroup(group));
  return parent.command(rest.join(" "));
};

const addCompletion = (program: Command, { out }: Terminal) =>
  program
    .command("completion")
    .description("Print the completions of a shell: source <(svc-admin completion bash)")
    .addArgument(
      new Argument("<shell>").choices(["bash", "zsh", "fish"] satisfies CompletionShell[]),
    )
    .action(async (shell: CompletionShell) => {
      const { completionScripts } = await import("./commands/completion.ts");
      out.write(completionScripts[shell]);
    });

/** Prints the words that fit in place of the last of `args`, for a completion script. */
const printCompletions = async (
  { out }: Terminal,
  program: Command,
  formatsOf: ReadonlyMap<Command, readonly string[]>,
  [, ...words]: readonly string[],
) => {
  const { completionsOf } = await import("./commands/completion.ts");
  for (const line of completionsOf(program, formatsOf, words)) out.write(`${line}\n`);
};

const failureOf = (error: unknown, { err, signal }: Terminal): AdminExitCode => {
  // Commander has written its message already.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  if (signal.aborted) return exitCodes.interrupted;
  if (error instanceof ActionFailure) {
    err.write(`svc-admin: ${error.message}\n`);
    return error.exitCode;
  }
  if (error instanceof FleetError) {
    err.write(describeProblem(error.problem));
    if (error.problem.code === ("unauthenticated" satisfies CoreProblemCode))
      err.write(
        "  sign in with svc-admin login, or put a new token into SVC_ADMIN_TOKEN_FILE if that is set\n",
      );
    return exitCodeOf(error.problem);
  }
  throw error;
};

const exitCodeOf = (problem: Problem): AdminExitCode => {
  if (isUnanswered(problem)) return exitCodes.unreachable;
  return problem.status === 401 ? exitCodes.notSignedIn : exitCodes.refused;
};
