import { Option } from "commander";
import { aheadHours } from "../../proto/fleet-health/vocabulary.ts";
import type { Commands } from "../terminal/command.ts";
import { count, instant, interval, limit } from "./options.ts";

/** Declares the commands that show the health of hosts. */
export const declareFleet = (add: Commands["add"]): void => {
  const fleet = () => import("./fleet.ts");
  add("fleet list [query...]", {
    summary: "List hosts, those that need somebody first, by the query language of /fleet",
    options: [
      limit("at most so many hosts"),
      new Option("--watch", "repeat until interrupted").conflicts("at"),
      interval("10s"),
      instant("--at <time>", "as it was then"),
    ],
    load: async () => (await fleet()).listFleetAction,
  });
  add("fleet compare [query...]", {
    summary: "Compare the hosts of a query, which something changed, with similar ones before and after",
    options: [instant("--since <time>", "when the change began").makeOptionMandatory()],
    load: async () => (await fleet()).compareHostsAction,
  });
  add("fleet changes", {
    summary: "List upgrades and changes of labels, newest first, each compared with unchanged hosts once it has soaked",
    options: [limit("at most so many changes")],
    load: async () => (await fleet()).listChangesAction,
  });
  add("fleet show <host>", {
    summary: "Show a host's health",
    options: [instant("--at <time>", "as it was then")],
    load: async () => (await fleet()).showHostAction,
  });
  add("fleet ahead", {
    summary: "Show what runs out in the next hours: certificates, queues, tokens, room of telemetry",
    options: [count("--hours <count>", "how far to look").default(aheadHours)],
    load: async () => (await fleet()).lookAheadAction,
  });
};
