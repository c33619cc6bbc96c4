import { Option } from "commander";
import { hourStates } from "../../proto/completeness/hour-state.ts";
import { inventoryStatuses } from "../../proto/fleet-health/vocabulary.ts";
import type { Commands } from "../terminal/command.ts";
import { all, count, instant, limit, size } from "./options.ts";

type Add = Commands["add"];

/** Declares the commands that read the completeness of hosts. */
export const declareCompleteness = (add: Add): void => {
  add("completeness [host]", {
    summary: "Show the hours of a host, or the hosts with incomplete hours, those with the most first",
    options: [
      instant("--from <time>", "hours from this time on; a week ago by default"),
      instant("--to <time>", "hours before this time"),
      new Option("--state <state>", "only hours in this state").choices(hourStates),
      limit("the first so many hosts"),
    ],
    load: async () => (await import("./completeness.ts")).completenessAction,
  });
  add("completeness statement <hour>", {
    summary: "Write the signed statement of an hour, for svc-server verify-completeness",
    options: [
      new Option("--host <name>", "only its lines, with their proofs and accounts"),
      new Option("--accounts", "with the accounts of all hosts"),
      count("--since <size>", "with the proof that the log continues what it was at this size"),
    ],
    formats: ["text"],
    load: async () => (await import("./completeness.ts")).writeStatementAction,
  });
};

/** Declares the commands of the inventory of expected hosts. */
export const declareInventory = (add: Add): void => {
  const load = () => import("./inventory.ts");
  const allowEmpty = () => new Option("--allow-empty", "a file without a host is meant: nothing is expected");
  add("inventory put <file>", {
    summary: "Replace the inventory of expected hosts by a CSV or JSON file; - reads stdin",
    options: [allowEmpty(), new Option("--if-match <etag>", "only if the inventory has this ETag")],
    load: async () => (await load()).putInventoryAction,
  });
  add("inventory list", {
    summary: "List the hosts of the inventory and of the fleet, by name",
    options: [new Option("--status <status>", "only hosts with this status").choices(inventoryStatuses)],
    load: async () => (await load()).listInventoryAction,
  });
  add("inventory diff <file>", {
    summary: "Show what a file would change of the inventory; ends with 1 if it would",
    options: [allowEmpty()],
    load: async () => (await load()).diffInventoryAction,
  });
};

/** Declares the commands of what hosts send, and may send. */
export const declareVolume = (add: Add): void => {
  add("volume", {
    summary: "Show what sent the most bytes: hosts, kinds, sources or values of a label",
    options: [
      new Option("--by <split>", "host, kind, source or label:KEY; host by default"),
      instant("--from <time>", "from this time on; a day ago by default"),
      instant("--to <time>", "before this time"),
      limit("the first so many"),
    ],
    load: async () => (await import("./volume.ts")).volumeAction,
  });
  const load = () => import("./budgets.ts");
  add("budgets list", {
    summary: "List how many bytes core stores of each host in an hour, and how many hosts each budget holds",
    load: async () => (await load()).listBudgetsAction,
  });
  add("budgets set <name> [query...]", {
    summary: "Set the budget of each host that the query finds; what a host has beyond it waits in its queue",
    options: [
      new Option("--bytes <size>", "what core stores of a host in an hour: 500MiB")
        .argParser(size)
        .makeOptionMandatory(),
      all(),
    ],
    load: async () => (await load()).setBudgetAction,
  });
  add("budgets delete <name>", {
    summary: "Delete a budget; the hosts that it holds send again within seconds",
    load: async () => (await load()).deleteBudgetAction,
  });
};
