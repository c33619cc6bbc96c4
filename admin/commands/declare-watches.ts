import { Option } from "commander";
import { watchStates } from "../../proto/watch/vocabulary.ts";
import type { CommandsOf } from "../terminal/command.ts";
import { count, durationOption, several } from "./options.ts";

const reason = () => new Option("--reason <text>", "why, for the history and the audit log");

const definition = () => [
  count("--more-than <count>", "hosts that may match"),
  new Option("--for <duration>", "for how long more may match").argParser(durationOption),
  several("--receiver <name>", "where its messages go: a receiver of core's configuration"),
];

/** Declares `svc-admin watches`. */
export const declareWatches = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./watches.ts"));
  add("watches list", "List watches and how they stand", (file) => file.listWatchesAction, [
    new Option("--state <state>").choices(watchStates),
  ]);
  add("watches show <watch>", "Show a watch and its history", (file) => file.showWatchAction);
  add(
    "watches create <name> [query...]",
    "Watch the hosts that the query finds: fires when more match than allowed, none and for 5m by default",
    (file) => file.createWatchAction,
    definition(),
  );
  add(
    "watches update <watch>",
    "Change a watch: what is not given stays; it is evaluated anew",
    (file) => file.updateWatchAction,
    [
      new Option("--name <name>"),
      new Option("--query <query>", "the hosts, by the query language of /fleet"),
      ...definition(),
      new Option("--no-receivers", "send its messages nowhere"),
    ],
  );
  add("watches delete <watch>", "Delete a watch and its history", (file) => file.deleteWatchAction);
  add(
    "watches silence <watch>",
    "Hold the messages of a watch back for a time; 0s ends it",
    (file) => file.silenceWatchAction,
    [
      new Option("--for <duration>", "how long: 2h, at most 30d")
        .argParser(durationOption)
        .makeOptionMandatory(),
      reason(),
    ],
  );
  add(
    "watches test <watch>",
    "Send a test message to each receiver of a watch",
    (file) => file.testWatchAction,
  );
};
