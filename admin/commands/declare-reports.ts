import { Option } from "commander";
import { hourStates } from "../../proto/completeness/hour-state.ts";
import { inventoryStatuses } from "../../proto/fleet-health/vocabulary.ts";
import type { CommandsOf } from "../terminal/command.ts";
import { all, count, instant, limit, reason, size } from "./options.ts";

/** Declares the commands that read the completeness of hosts. */
export const declareCompleteness = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./completeness.ts"));
  add(
    "completeness [host]",
    "Show the hours of a host, or the hosts with incomplete hours, those with the most first",
    (file) => file.completenessAction,
    [
      instant("--from <time>", "hours from this time on; a week ago by default"),
      instant("--to <time>", "hours before this time"),
      new Option("--state <state>", "only hours in this state").choices(hourStates),
      limit("the first so many hosts"),
    ],
  );
  add(
    "completeness statement <hour>",
    "Write the signed statement of an hour, for svc-server verify-completeness",
    (file) => file.writeStatementAction,
    [
      new Option("--host <name>", "only its lines, with their proofs and accounts"),
      new Option("--accounts", "with the accounts of all hosts"),
      count("--since <size>", "with the proof that the log continues what it was at this size"),
    ],
    ["text"],
  );
  add(
    "queues list <host>",
    "List the queues of a host that bind its hours, and how others ended",
    (file) => file.listQueuesAction,
  );
  add(
    "queues close <host> <queue>",
    "Close a queue that will not speak again: its open hours stay incomplete, later ones do without it",
    (file) => file.closeQueueAction,
    [reason()],
  );
};

/** Declares the commands of the inventory of expected hosts. */
export const declareInventory = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./inventory.ts"));
  const allowEmpty = () =>
    new Option("--allow-empty", "a file without a host is meant: nothing is expected");
  add(
    "inventory put <file>",
    "Replace the inventory of expected hosts by a CSV or JSON file; - reads stdin",
    (file) => file.putInventoryAction,
    [allowEmpty(), new Option("--if-match <etag>", "only if the inventory has this ETag")],
  );
  add(
    "inventory list",
    "List the hosts of the inventory and of the fleet, by name",
    (file) => file.listInventoryAction,
    [new Option("--status <status>", "only hosts with this status").choices(inventoryStatuses)],
  );
  add(
    "inventory diff <file>",
    "Show what a file would change of the inventory; ends with 1 if it would",
    (file) => file.diffInventoryAction,
    [allowEmpty()],
  );
};

/** Declares the commands of what hosts send, and may send. */
export const declareVolume = (commandsOf: CommandsOf): void => {
  commandsOf(() => import("./volume.ts"))(
    "volume",
    "Show what sent the most bytes: hosts, kinds, sources or values of a label",
    (file) => file.volumeAction,
    [
      new Option("--by <split>", "host, kind, source or label:KEY; host by default"),
      instant("--from <time>", "from this time on; a day ago by default"),
      instant("--to <time>", "before this time"),
      limit("the first so many"),
    ],
  );
  const add = commandsOf(() => import("./budgets.ts"));
  add(
    "budgets list",
    "List how many bytes core stores of each host in an hour, and how many hosts each budget holds",
    (file) => file.listBudgetsAction,
  );
  add(
    "budgets set <name> [query...]",
    "Set the budget of each host that the query finds; what a host has beyond it waits in its queue",
    (file) => file.setBudgetAction,
    [
      new Option("--bytes <size>", "what core stores of a host in an hour: 500MiB")
        .argParser(size)
        .makeOptionMandatory(),
      all(),
    ],
  );
  add(
    "budgets delete <name>",
    "Delete a budget; the hosts that it holds send again within seconds",
    (file) => file.deleteBudgetAction,
  );
};
