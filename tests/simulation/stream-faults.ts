/** What happens to JetStream, drawn from the seed. */
import { type Fault, nearHourEnd, seconds } from "./faults.ts";
import type { JetStream } from "./jetstream.ts";
import type { Lab } from "./simulate.ts";

const forAWhile =
  (change: (jetstream: JetStream) => void, undo: (jetstream: JetStream) => void): Fault =>
  (lab: Lab) => {
    const { jetstream } = lab;
    if (jetstream === undefined) return;
    change(jetstream);
    lab.world.after(seconds(lab, 1, 20), () => undo(jetstream));
  };

/** Ends every fault that lasts. */
export const healStreams = (jetstream: JetStream): void =>
  void Object.assign(jetstream, { storeMs: [0, 5], losesAcks: false, isAway: false });

/** The fault of replicas. Drawn apart, so that it changes few other histories. */
export const laggingFault = "a replica that lags leads a stream";

/** The faults by name. */
export const streamFaults: Readonly<Record<string, Fault>> = {
  "the stream's leader is lost": ({ jetstream }) => jetstream?.loseLeader(),
  "the stream's servers are away": forAWhile(
    (jetstream) => {
      jetstream.isAway = true;
      jetstream.loseLeader();
    },
    (jetstream) => (jetstream.isAway = false),
  ),
  "the stream's servers stall": (lab) => {
    if (lab.jetstream) lab.jetstream.process.suspendedUntil = lab.world.now() + seconds(lab, 1, 15);
  },
  "the stream's acknowledgements are lost": forAWhile(
    (jetstream) => (jetstream.losesAcks = true),
    (jetstream) => (jetstream.losesAcks = false),
  ),
  "the streams are restored from a backup": (lab) => {
    const restore = lab.jetstream?.backUp();
    if (restore) lab.world.after(seconds(lab, 1, 20), restore);
  },
  [laggingFault]: (lab) => {
    const { chance } = lab.world;
    const names = chance.pick([
      ["SVC_INGEST"],
      ["SVC_INGEST_QUEUES"],
      ["SVC_INGEST", "SVC_INGEST_QUEUES"],
    ]);
    const lagMs = chance.integer(0, 3_000);
    // As an hour ends, it leads before the hosts' accounts arrive, and nothing else shows what it lacks.
    nearHourEnd(lab, lagMs, () => {
      const lead = lab.jetstream?.backUp(names);
      if (lead) lab.world.after(lagMs, lead);
    });
  },
  "the stream is slow": forAWhile(
    (jetstream) => (jetstream.storeMs = [100, 7_000]),
    (jetstream) => (jetstream.storeMs = [0, 5]),
  ),
};
