import type { CollectorEnv } from "../env.ts";
import { version } from "../version.ts";
import {
  type Command,
  CommandFailure,
  type CommandOutcome,
  commandFailure,
  exitCode,
  parseFlags,
} from "./command.ts";

/** The commands by name. Each is imported on demand, so that `diag` does not load what `run` needs. */
export const commands: Record<string, { summary: string; load: () => Promise<Command> }> = {
  enroll: {
    summary: "get a certificate for this host with a bootstrap token, and write its config",
    load: () => import("./enroll.ts").then((module) => module.enrollCommand),
  },
  run: {
    summary: "collect, forward and send heartbeats until stopped",
    load: () => import("./run.ts").then((module) => module.runCommand),
  },
  renew: {
    summary: "replace the certificate and its key now",
    load: () => import("./renew.ts").then((module) => module.renewCommand),
  },
  trust: {
    summary: "take the next CA bundle of core, whatever its number",
    load: () => import("./trust.ts").then((module) => module.trustCommand),
  },
  status: {
    summary: "show what the running collector does",
    load: () => import("./status.ts").then((module) => module.statusCommand),
  },
  "dead-letters": {
    summary: "list or export the records that core rejected",
    load: () => import("./dead-letters.ts").then((module) => module.deadLettersCommand),
  },
  queue: {
    summary: "import the records of a queue that was quarantined",
    load: () => import("./queue.ts").then((module) => module.queueCommand),
  },
  retire: {
    summary: "end the queue for good: forward what it has, and send its last account",
    load: () => import("./retire.ts").then((module) => module.retireCommand),
  },
  sources: {
    summary: "show what the rules of a config leave of a file",
    load: () => import("./sources.ts").then((module) => module.sourcesCommand),
  },
  diag: {
    summary: "print a diagnostics bundle without secrets",
    load: () => import("./diag.ts").then((module) => module.diagCommand),
  },
  "validate-config": {
    summary: "check a config file and the files it names",
    load: () => import("./validate-config.ts").then((module) => module.validateConfigCommand),
  },
};

/** Runs one command line and returns its exit code: 0 done, 1 failed, 2 usage, 78 a fault that a restart cannot fix. */
export const runCommandLine = async (
  argv: readonly string[],
  env: CollectorEnv,
): Promise<number> => {
  const [name = "", ...args] = argv;
  if (name === "--version") {
    env.stdout.write(`${version}\n`);
    return exitCode.done;
  }
  const entry = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (entry === undefined) {
    const asked = name === "--help" || name === "help";
    (asked ? env.stdout : env.stderr).write(overview());
    return asked ? exitCode.done : exitCode.usage;
  }
  const command = await entry.load();
  if (args.includes("--help")) {
    env.stdout.write(`svc-collector ${name}: ${entry.summary}\n\n${command.usage}`);
    return exitCode.done;
  }
  const output = { name, env, asJson: args.includes("--json") };
  try {
    const operands: string[] = [];
    const flags = parseFlags(
      { ...command.flags, json: "switch" },
      args,
      command.operands ? operands : undefined,
    );
    const progress = (line: string) => {
      if (!output.asJson) env.stderr.write(`svc-collector ${name}: ${line}\n`);
    };
    return render(await command.run(flags, env, progress, operands), output);
  } catch (error) {
    return renderFailure(error, output);
  }
};

/** Where and how the command `name` prints its outcome. */
interface Output {
  name: string;
  env: CollectorEnv;
  asJson: boolean;
}

const overview = (): string => {
  const lines = Object.entries(commands).map(
    ([name, { summary }]) => `  ${name.padEnd(16)}${summary}`,
  );
  return `usage: svc-collector <command> [flags]\n\n${lines.join("\n")}\n\n--help after a command lists its flags; --version prints ${version}\n`;
};

const render = (outcome: CommandOutcome, { name, env, asJson }: Output): number => {
  if (asJson || outcome.jsonAlways)
    env.stdout.write(`${JSON.stringify(outcome.json, null, asJson ? undefined : 2)}\n`);
  else if (outcome.text !== undefined) env.stdout.write(outcome.text);
  else for (const line of outcome.lines) env.stderr.write(`svc-collector ${name}: ${line}\n`);
  return outcome.exitCode;
};

const renderFailure = (error: unknown, { name, env, asJson }: Output): number => {
  const failure =
    error instanceof CommandFailure
      ? error
      : commandFailure("internal", error instanceof Error ? error.message : "unknown failure");
  if (asJson) {
    const { code, message, details } = failure;
    env.stdout.write(`${JSON.stringify({ ok: false, error: { code, message, details } })}\n`);
  } else {
    env.stderr.write(`svc-collector ${name}: ${failure.message}\n`);
    for (const detail of failure.details) env.stderr.write(`  ${detail}\n`);
    if (failure.exitCode === exitCode.usage)
      env.stderr.write(`  svc-collector ${name} --help lists its flags\n`);
  }
  return failure.exitCode;
};
