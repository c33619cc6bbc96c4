import { Option } from "commander";
import { watchStates } from "../../proto/watch/vocabulary.ts";
import type { Commands } from "../terminal/command.ts";
import { count, durationOption, several } from "./options.ts";

const reason = () => new Option("--reason <text>", "why, for the history and the audit log");

const definition = () => [
  count("--more-than <count>", "hosts that may match"),
  new Option("--for <duration>", "for how long more may match").argParser(durationOption),
  several("--receiver <name>", "where its messages go: a receiver of core's configuration"),
];

/** Declares `svc-admin watches`. */
export const declareWatches = (add: Commands["add"]): void => {
  const load = () => import("./watches.ts");
  add("watches list", {
    summary: "List watches and how they stand",
    options: [new Option("--state <state>").choices(watchStates)],
    load: async () => (await load()).listWatchesAction,
  });
  add("watches show <watch>", {
    summary: "Show a watch and its history",
    load: async () => (await load()).showWatchAction,
  });
  add("watches create <name> [query...]", {
    summary: "Watch the hosts that the query finds: fires when more match than allowed, none and for 5m by default",
    options: definition(),
    load: async () => (await load()).createWatchAction,
  });
  add("watches update <watch>", {
    summary: "Change a watch: what is not given stays; it is evaluated anew",
    options: [
      new Option("--name <name>"),
      new Option("--query <query>", "the hosts, by the query language of /fleet"),
      ...definition(),
      new Option("--no-receivers", "send its messages nowhere"),
    ],
    load: async () => (await load()).updateWatchAction,
  });
  add("watches delete <watch>", {
    summary: "Delete a watch and its history",
    load: async () => (await load()).deleteWatchAction,
  });
  add("watches silence <watch>", {
    summary: "Hold the messages of a watch back for a time; 0s ends it",
    options: [
      new Option("--for <duration>", "how long: 2h, at most 30d").argParser(durationOption).makeOptionMandatory(),
      reason(),
    ],
    load: async () => (await load()).silenceWatchAction,
  });
  add("watches test <watch>", {
    summary: "Send a test message to each receiver of a watch",
    load: async () => (await load()).testWatchAction,
  });
};
