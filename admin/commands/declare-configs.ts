import { everyHost, reasonCode } from "../terminal/parse-option.ts";
import { commandsFrom } from "./command.ts";

const plan = commandsFrom(() => import("./plan.ts"));
const prune = { "--prune": "delete what apply made and no file has any more" };

/** `svc-admin plan` and `apply`. */
export const planCommands = [
  plan.runs(
    "plan <dir>",
    "Show what apply would change, and what somebody changed since the last one; ends with 2 if there is a difference",
    (file) => file.planAction,
    prune,
  ),
  plan.runs(
    "apply <dir>",
    "Make configs, policies, watches, inventory and assignments what the files of a directory say",
    (file) => file.applyAction,
    prune,
  ),
];

const configs = commandsFrom(() => import("./configs.ts"));
const configHosts = commandsFrom(() => import("./config-hosts.ts"));

/** `svc-admin configs`. */
export const configCommands = [
  configs.calls("configs list", "List published configs", "listCollectorConfigs", {
    options: { "--kind <kind>": "only those of this kind of agent" },
    columns: ["id", "name", "kind", "config_hash", "size_bytes", "created_at"],
  }),
  configs.calls("configs show <config>", "Print a config's YAML", "getCollectorConfig", {
    print: (file) => file.printConfig,
  }),
  configs.runs(
    "configs diff <config> <other>",
    "Print what differs between two configs",
    (file) => file.diffConfigsAction,
  ),
  commandsFrom(() => import("./preview.ts")).runs(
    "configs preview <config> [query...]",
    "Show what a rollout of a config to every host that the query finds would change",
    (file) => file.previewConfigAction,
    { "--all": everyHost },
  ),
  configs.calls(
    "configs publish <file>",
    "Check and publish a config; - reads stdin",
    "publishCollectorConfig",
    {
      options: {
        "--name <name>": "",
        "--kind <kind>": "the kind of agent that it is for",
        "--dry-run": "check it and store nothing",
      },
      prepare: (file) => file.readConfig,
    },
  ),
  configHosts.runs(
    "configs assign <config> [query...]",
    "Assign a config to every host that the query finds",
    (file) => file.assignConfigAction,
    { "--all": everyHost },
  ),
  configHosts.runs(
    "configs rollback [query...]",
    "Give the host of an id, or every host that the query finds, an earlier config",
    (file) => file.rollBackConfigAction,
    {
      "--all": everyHost,
      "--to <config>": {
        says: "the last known good one of a host, or the one that was desired before",
        choices: ["last-known-good", "previous"],
        default: "last-known-good",
      },
      "--reason <code>": reasonCode,
    },
  ),
];
