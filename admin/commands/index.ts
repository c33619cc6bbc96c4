import type { DeclaredCommand } from "./command.ts";
import { configCommands, planCommands } from "./declare-configs.ts";
import { enrollmentCommands } from "./declare-enrollment.ts";
import { hostCommands } from "./declare-hosts.ts";
import { recordCommands, telemetryCommands } from "./declare-records.ts";
import { completenessCommands, inventoryCommands, volumeCommands } from "./declare-reports.ts";
import { rolloutCommands } from "./declare-rollouts.ts";
import { sessionCommands } from "./declare-session.ts";
import { watchCommands } from "./declare-watches.ts";

/** The subject of each group of commands. */
const groupSubjects: Readonly<Record<string, string>> = {
  sessions: "Sessions of programs",
  policies: "Enrollment policies",
  simulate: "What core would answer",
  tokens: "Bootstrap tokens",
  fleet: "The health of hosts",
  hosts: "A running host",
  identities: "Enrolled hosts",
  certificates: "Certificates of hosts",
  queues: "Queues of a host",
  inventory: "The inventory of expected hosts",
  budgets: "How many bytes core stores of each host in an hour",
  configs: "Collector configs",
  rollouts: "Rollouts of configs by waves",
  watches: "Watches",
  telemetry: "The stored telemetry of hosts",
  audit: "The audit log",
  directory: "The directory",
};

/** Returns the description of a group of commands, for `--help`: its subject, and its commands. Throws for a group without a subject. */
export const summaryOfGroup = (group: string): string => {
  const subject = groupSubjects[group];
  if (subject === undefined) throw new Error(`the commands of ${group} have no subject`);
  const names = adminCommands.flatMap(({ path }) => {
    const [first, name = ""] = path.split(" ");
    return first === group ? [name] : [];
  });
  return `${subject}: ${names.join(", ")}`;
};

/** Every command, in the order of `--help`. */
export const adminCommands: readonly DeclaredCommand[] = [
  ...sessionCommands,
  ...enrollmentCommands,
  ...hostCommands,
  ...inventoryCommands,
  ...configCommands,
  ...rolloutCommands,
  ...watchCommands,
  ...planCommands,
  ...telemetryCommands,
  ...completenessCommands,
  ...volumeCommands,
  ...recordCommands,
];
