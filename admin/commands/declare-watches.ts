import { writeDuration } from "#proto/fleet-health/query-language/quantities.ts";
import { commandsFrom } from "./command.ts";

const { calls, runs } = commandsFrom(() => import("./watches.ts"));

const definition = {
  "--more-than <count>": "hosts that may match",
  "--for <duration>": { says: "for how long more may match", field: "for_seconds" },
  "--receiver <name>": {
    says: "where its messages go: a receiver of core's configuration",
    field: "receivers",
  },
};

/** `svc-admin watches`. */
export const watchCommands = [
  calls("watches list", "List watches and how they stand", "listWatches", {
    options: { "--state <state>": "" },
    columns: [
      "id",
      "name",
      "state",
      "count",
      {
        threshold: ({ more_than, for_seconds }) =>
          `> ${more_than} for ${writeDuration(for_seconds)}`,
      },
      "filter",
      "since",
      { "silenced until": ({ silence }) => silence?.until },
      "receivers",
      "waiting_messages",
      "fault",
    ],
  }),
  calls("watches show <watch>", "Show a watch and its history", "getWatch", {
    print: (file) => file.printWatch,
  }),
  calls(
    "watches create <name> [query...]",
    "Watch the hosts that the query finds: fires when more match than allowed, none and for 5m by default",
    "createWatch",
    { options: definition },
  ),
  runs(
    "watches update <watch>",
    "Change a watch: what is not given stays; it is evaluated anew",
    (file) => file.updateWatchAction,
    {
      "--name <name>": { required: false },
      "--query <query>": "the hosts, by the query language of /fleet",
      ...definition,
      "--no-receivers": "send its messages nowhere",
    },
    { calls: "changeWatch" },
  ),
  calls("watches delete <watch>", "Delete a watch and its history", "deleteWatch", {
    asks: ({ given }) => `Delete the watch ${given} and its history`,
  }),
  calls(
    "watches silence <watch>",
    "Hold the messages of a watch back for a time; 0s ends it",
    "silenceWatch",
    {
      options: {
        "--for <duration>": { says: "how long: 2h, at most 30d", field: "seconds" },
        "--reason <text>": "why, for the history and the audit log",
      },
    },
  ),
  calls("watches test <watch>", "Send a test message to each receiver of a watch", "testWatch", {
    says: ({ id }) => `A test is on its way: svc-admin watches show ${id} shows what becomes of it`,
  }),
];
