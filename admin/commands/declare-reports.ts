import { hourStates } from "#proto/completeness/hour-state.ts";
import { writeSize } from "#proto/fleet-health/query-language/quantities.ts";
import type { Column } from "../terminal/output.ts";
import {
  everyHost,
  instant,
  limit,
  parseWholeNumber,
  reasonCode,
} from "../terminal/parse-option.ts";
import { type AnswerOf, commandsFrom } from "./command.ts";

const completeness = commandsFrom(() => import("./completeness.ts"));
const inventory = commandsFrom(() => import("./inventory.ts"));
const { calls } = commandsFrom(() => import("./fleet.ts"));

const queueColumns: readonly Column<AnswerOf<"listHostQueues">["items"][number]>[] = [
  "queue_id as queue",
  "first_seen_at as first seen",
  "last_seen_at as last seen",
  "ended_at as ended",
  "ending as by",
];

/** The commands that read the completeness of hosts. */
export const completenessCommands = [
  completeness.runs(
    "completeness [host]",
    "Show the hours of a host, or the hosts with incomplete hours, the largest loss first",
    (file) => file.completenessAction,
    {
      "--from <time>": instant("hours from this time on; a week ago by default"),
      "--to <time>": instant("hours before this time"),
      "--state <state>": { says: "only hours in this state", choices: hourStates },
      "--limit <count>": limit("the first so many hosts"),
    },
  ),
  completeness.runs(
    "completeness statement <hour>",
    "Write the signed statement of an hour, for svc-server verify-completeness",
    (file) => file.writeStatementAction,
    {
      "--host <name>": "only its lines, with their proofs and accounts",
      "--accounts": "with the accounts of all hosts",
      "--since <size>": {
        says: "with the proof that the log continues what it was at this size",
        parse: parseWholeNumber,
      },
    },
    { formats: ["text"] },
  ),
  calls(
    "queues list <host>",
    "List the queues of a host that bind its hours, and how others ended",
    "listHostQueues",
    { columns: queueColumns },
  ),
  calls(
    "queues close <host> <queue>",
    "Close a queue that will not speak again: its open hours stay incomplete, later ones do without it",
    "closeHostQueue",
    { options: { "--reason <code>": reasonCode }, columns: queueColumns },
  ),
];

const allowEmpty = "a file without a host is meant: nothing is expected";

/** The commands of the inventory of expected hosts. */
export const inventoryCommands = [
  inventory.runs(
    "inventory put <file>",
    "Replace the inventory of expected hosts by a CSV or JSON file; - reads stdin",
    (file) => file.putInventoryAction,
    {
      "--allow-empty": allowEmpty,
      "--if-match <etag>": "only if the inventory has this ETag",
    },
  ),
  inventory.calls(
    "inventory list",
    "List the hosts of the inventory and of the fleet, by name",
    "listInventory",
    {
      options: { "--status <status>": "only hosts with this status" },
      columns: [
        "name",
        "status",
        "owner",
        {
          labels: ({ labels }) =>
            Object.entries(labels)
              .map((pair) => pair.join("="))
              .join(" "),
        },
        "identity",
      ],
    },
  ),
  inventory.runs(
    "inventory diff <file>",
    "Show what a file would change of the inventory; ends with 1 if it would",
    (file) => file.diffInventoryAction,
    { "--allow-empty": allowEmpty },
  ),
];

/** The commands of what hosts send, and may send. */
export const volumeCommands = [
  calls(
    "volume",
    "Show what sent the most bytes: hosts, kinds, sources or values of a label",
    "reportVolume",
    {
      options: {
        "--by <split>": "host, kind, source or label:KEY; host by default",
        "--from <time>": instant("from this time on; a day ago by default"),
        "--to <time>": instant("before this time"),
        "--limit <count>": limit("the first so many"),
      },
      columns: (file) => file.volumeColumns,
    },
  ),
  calls(
    "budgets list",
    "List how many bytes core stores of each host in an hour, and how many hosts each budget holds",
    "listBudgets",
    {
      columns: [
        "name",
        "filter",
        { "an hour": ({ bytes_per_hour }) => writeSize(bytes_per_hour) },
        "held_hosts",
        "changed_at",
        "changed_by_name",
      ],
    },
  ),
  calls(
    "budgets set <name> [query...]",
    "Set the budget of each host that the query finds; what a host has beyond it waits in its queue",
    "putBudget",
    {
      options: {
        "--bytes <size>": {
          says: "what core stores of a host in an hour: 500MiB",
          field: "bytes_per_hour",
        },
        "--all": everyHost,
      },
      prepare: (file) => file.checkQuery,
    },
  ),
  calls(
    "budgets delete <name>",
    "Delete a budget; the hosts that it holds send again within seconds",
    "deleteBudget",
    { asks: ({ given }) => `Delete the budget ${given}` },
  ),
];
