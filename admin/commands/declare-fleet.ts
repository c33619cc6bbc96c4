import { Option } from "commander";
import { aheadHours } from "../../proto/fleet-health/vocabulary.ts";
import type { CommandsOf } from "../terminal/command.ts";
import { count, instant, interval, limit } from "./options.ts";

/** Declares the commands that show the health of hosts. */
export const declareFleet = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./fleet.ts"));
  add(
    "fleet list [query...]",
    "List hosts, those that need somebody first, by the query language of /fleet",
    (file) => file.listFleetAction,
    [
      limit("at most so many hosts"),
      new Option("--watch", "repeat until interrupted").conflicts("at"),
      interval("10s"),
      instant("--at <time>", "as it was then"),
    ],
  );
  add(
    "fleet compare [query...]",
    "Compare the hosts of a query, which something changed, with similar ones before and after",
    (file) => file.compareHostsAction,
    [instant("--since <time>", "when the change began").makeOptionMandatory()],
  );
  add(
    "fleet changes",
    "List upgrades and changes of labels, newest first, each compared with unchanged hosts once it has soaked",
    (file) => file.listChangesAction,
    [limit("at most so many changes")],
  );
  add("fleet show <host>", "Show a host's health", (file) => file.showHostAction, [
    instant("--at <time>", "as it was then"),
  ]);
  add(
    "fleet ahead",
    "Show what runs out in the next hours: certificates, queues, tokens, room of telemetry",
    (file) => file.lookAheadAction,
    [count("--hours <count>", "how far to look").default(aheadHours)],
  );
};
