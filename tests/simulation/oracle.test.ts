/** What the oracle excuses, since nobody can know it, and what it does not. */
import { expect, it } from "vitest";
import type { Sink } from "#functions/ingest/sink.ts";
import { createDisk } from "./disk.ts";
import type { SimulatedHost } from "./host.ts";
import { createOracle, laws } from "./oracle.ts";
import { createLedger } from "./queue-past.ts";
import { emptyTables, type StoredEnvelope } from "./tables.ts";
import { tracedSink } from "./trace.ts";
import { inWorld } from "./world.ts";

const hostId = "spiffe://sim/host";
const queueHex = "07".repeat(16);
const envelope = (sequence: number, text: string) => ({
  hostId,
  queueHex,
  sequence,
  text,
  xid: 1,
});
/** Of copies of one queue. */
const ledger = createLedger();
ledger.queues.add(queueHex).add("08".repeat(16));
const hostOf = (machine: string, diskRestores: number) => {
  const host = {
    hostId,
    machine,
    disk: {
      ...createDisk(),
      ledger,
      restores: diskRestores,
      image: { state: { queueId: Uint8Array.fromHex(queueHex) }, deadLetters: [] },
    },
    queue: { stats: () => ({ records: 0, droppedRecordsTotal: 0 }) },
    forwarder: { status: () => ({ connected: true, lastError: null }) },
  };
  return host as unknown as SimulatedHost;
};

interface History {
  stored: StoredEnvelope[];
  discarded: StoredEnvelope[];
  promised: string[];
  /** The last sequence of a range that begins with 1. */
  lostThrough?: number;
  hosts?: readonly SimulatedHost[];
  restores?: number;
}
const brokenLaws = ({
  stored,
  discarded,
  promised,
  lostThrough = 0,
  hosts,
  restores = 1,
}: History) => {
  const oracle = createOracle();
  oracle.acknowledge(hostId, promised);
  const tables = { ...emptyTables(), envelopes: stored };
  if (lostThrough > 0)
    tables.records.push({
      hostId,
      queueHex,
      action: "ingest.gap",
      details: { from: 1, through: lostThrough },
    });
  const rest = {
    cores: [],
    stuck: new Set<string>(),
    isIntact: false,
    restores,
    revoked: new Map(),
  };
  return oracle
    .judge({ tables, discarded, hosts: hosts ?? [hostOf("host", 0)], ...rest })
    .map(({ law }) => law);
};

it("excuses a record whose place a backup of before has used, once its disk has gone back, and its database twice", () => {
  const history = {
    stored: [envelope(1, "first")],
    discarded: [envelope(1, "second")],
    promised: ["second"],
  };
  const hosts = [hostOf("host", 1)];
  expect(brokenLaws({ ...history, hosts, restores: 2 })).toEqual([]);
  expect(brokenLaws({ ...history, hosts, restores: 1 })).toEqual([laws.stored]);
  expect(brokenLaws({ ...history, restores: 2 })).toEqual([laws.stored]);
  expect(brokenLaws({ ...history, stored: [], hosts, restores: 2 })).toEqual([laws.stored]);
});

it("excuses a record that no database had and whose place an object has given to one of before, and not the one of before", () => {
  const host = hostOf("host", 1);
  const written = new Map(["before", "after"].map((text) => [text, { sequence: 1, wallMs: 0 }]));
  Object.assign(host.disk, { ledger: { ...createLedger(), written } });
  const history = { stored: [envelope(1, "before")], discarded: [], promised: ["after"] };
  const hosts = [host];
  expect(brokenLaws({ ...history, hosts, restores: 2 })).toEqual([]);
  expect(brokenLaws({ ...history, hosts, restores: 1 })).toEqual([laws.stored]);
  expect(brokenLaws({ ...history, stored: [], hosts, restores: 2 })).toEqual([laws.stored]);
  const other = { ...history, stored: [envelope(1, "after")], promised: ["before"] };
  expect(brokenLaws({ ...other, hosts, restores: 2 })).toEqual([laws.stored]);
  // Core has rejected the one of before.
  host.disk.ledger.letters.push({ sequence: 1, code: "kind_invalid" });
  expect(brokenLaws({ ...history, stored: [], hosts, restores: 2 })).toEqual([]);
});

it("excuses a record whose place its copy has used, once the database has gone back", () => {
  const history = {
    stored: [envelope(1, "copy's")],
    discarded: [envelope(1, "mine")],
    promised: ["mine"],
  };
  const hosts = [hostOf("host", 0), hostOf("host'", 0)];
  expect(brokenLaws({ ...history, hosts })).toEqual([]);
  expect(brokenLaws({ ...history, hosts, stored: [] })).toEqual([laws.stored]);
  expect(brokenLaws(history)).toEqual([laws.stored]);

  const rejecting = { ...ledger, letters: [{ sequence: 1, code: "kind_invalid" }] };
  const ofRejected = hosts.map((host) => ({ ...host, disk: { ...host.disk, ledger: rejecting } }));
  expect(brokenLaws({ ...history, hosts: ofRejected, stored: [] })).toEqual([]);
  expect(brokenLaws({ ...history, hosts: ofRejected, discarded: [] })).toEqual([laws.stored]);
});

it("excuses what was stored in a database or a stream that went back, once the disk that knew of it is damaged", () => {
  const history = { stored: [], discarded: [envelope(1, "mine")], promised: ["mine"] };
  const host = hostOf("host", 1);
  host.disk.damages = 1;
  expect(brokenLaws({ ...history, hosts: [host] })).toEqual([]);
  // Restores of streams are counted apart.
  expect(brokenLaws({ ...history, hosts: [host], restores: 0 })).toEqual([]);
  const unsent = { ...history, hosts: [host], discarded: [] };
  expect(brokenLaws(unsent)).toEqual([laws.stored]);
  // The mark says what damage to another file took.
  host.disk.damages = 2;
  expect(brokenLaws(unsent)).toEqual([laws.stored]);
  host.disk.lacksMark = true;
  expect(brokenLaws(unsent)).toEqual([]);
  expect(brokenLaws(history)).toEqual([laws.stored]);
});

it("takes a place for lost of which one copy's record is, while the other's is stored", () => {
  const history = {
    stored: [envelope(1, "mine")],
    discarded: [envelope(1, "other's")],
    promised: ["other's"],
  };
  expect(brokenLaws({ ...history, lostThrough: 1 })).toEqual([]);
  expect(brokenLaws({ ...history, discarded: [], promised: ["mine"], lostThrough: 1 })).toEqual([
    laws.noFalseLoss,
  ]);
});

it("lets one copy report what the other sends again, and no host alone", () => {
  const history = {
    stored: [envelope(1, "sent again")],
    discarded: [envelope(1, "sent again")],
    promised: ["sent again"],
  };
  expect(
    brokenLaws({ ...history, lostThrough: 1, hosts: [hostOf("host", 0), hostOf("host'", 0)] }),
  ).toEqual([]);
  expect(brokenLaws({ ...history, lostThrough: 1 })).toEqual([laws.noFalseLoss]);
});

it("lets a disk that goes back twice send again what it reported in between, and none that goes back once", () => {
  const again = envelope(1, "sent again");
  const history = { stored: [again], discarded: [again], promised: ["sent again"], lostThrough: 1 };
  expect(brokenLaws({ ...history, hosts: [hostOf("host", 2)] })).toEqual([]);
  expect(brokenLaws({ ...history, hosts: [hostOf("host", 1)] })).toEqual([laws.noFalseLoss]);
});

it("takes for a false loss what a queue of one history used under another id only", () => {
  const earlier = { ...envelope(1, "earlier"), queueHex: "08".repeat(16) };
  const history = {
    stored: [earlier],
    discarded: [envelope(2, "lost")],
    promised: ["earlier", "lost"],
    lostThrough: 2,
  };
  expect(brokenLaws(history)).toEqual([laws.noFalseLoss]);
  expect(brokenLaws({ ...history, hosts: [hostOf("host", 1)] })).toEqual([]);
  expect(
    brokenLaws({ ...history, discarded: [envelope(1, "sent"), ...history.discarded] }),
  ).toEqual([]);
});

it("lets core hear of what it has received, unless its database has gone back by then", async () => {
  const heardIn = (goesBack: boolean) =>
    inWorld(1, async (world) => {
      let { heard } = emptyTables();
      const counts = { storedRows: 3, storedBytes: 3 };
      const committed = { outcome: "committed", before: 0n, cursor: 3n, ...counts } as const;
      const sink = { commit: async () => committed } as Partial<Sink> as Sink;
      const { commit } = tracedSink(world, "core 1", sink, () => heard);
      const queueId = Uint8Array.fromHex(queueHex);
      const frame = { queueId, previousSequence: 0n, lastSequence: 3n };
      await commit(frame as Parameters<Sink["commit"]>[0], 1);
      if (goesBack) heard = new Map();
      await world.runUntil(10_000);
      return heard.get(queueHex)?.map(({ through }) => through);
    });
  expect(await heardIn(false)).toEqual([3]);
  expect(await heardIn(true)).toBeUndefined();
});
