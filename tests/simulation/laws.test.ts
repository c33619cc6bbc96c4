/** Falsifies a history that breaks no law, one law at a time: the oracle names it. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { joinBlock } from "#collector/queue/block.ts";
import type { QueueStats } from "#collector/queue/stats.ts";
import { accountLaws } from "./account-laws.ts";
import { hourLaws } from "./hour-laws.ts";
import { objectLaws } from "./object-laws.ts";
import { laws } from "./oracle.ts";
import { type Lab, simulate } from "./simulate.ts";
import type { Values } from "./sql-expressions.ts";
import { withMembers } from "./with-members.ts";
import type { World } from "./world.ts";

const first = <Item>(items: readonly Item[]) => {
  const [item] = items;
  if (item === undefined) throw new Error("the history is empty");
  return item;
};

const passSeconds = (world: World, seconds: number) =>
  world.runUntil(world.now() + seconds * 1_000);

/** Lets the first host report other figures for two seconds. */
const withStats = async ({ hosts, world }: Lab, changed: Partial<QueueStats>) => {
  const host = first(hosts);
  const { queue } = host;
  host.queue = withMembers(queue, { stats: () => ({ ...queue.stats(), ...changed }) });
  await passSeconds(world, 2);
};

/** Changes the first account of records. */
const withAccount = ({ server: { tables } }: Lab, change: (account: Values) => Values) => {
  const at = tables.accounts.findIndex(({ accepted }) => Number(accepted) > 0);
  tables.accounts[at] = change(tables.accounts[at] ?? {});
};

/** Changes all accounts, which name no loss. */
const withAccounts = ({ server: { tables } }: Lab, changed: Values) =>
  tables.accounts.forEach((account, at) => {
    tables.accounts[at] = { ...account, rejected: 0n, missing: 0n, ...changed };
  });

/** Changes that break a law, by its name. */
const falsified: Readonly<Record<string, (lab: Lab) => Promise<void> | void>> = {
  [laws.stored]: ({ server: { tables } }) => void tables.envelopes.pop(),
  [laws.once]: ({ server: { tables } }) => {
    const envelope = first(tables.envelopes);
    tables.envelopes.push({ ...envelope, sequence: 1_000_000 });
  },
  [laws.inOrder]: ({ server: { tables } }) => void tables.envelopes.reverse(),
  [laws.noFalseLoss]: ({ server: { tables } }) => {
    const { hostId, queueHex, sequence } = first(tables.envelopes);
    const details = { from: String(sequence), through: String(sequence) };
    tables.records.push({ hostId, queueHex, action: "ingest.gap", details });
  },
  [laws.goesOn]: ({ hosts }) => {
    const host = first(hosts);
    const { queue } = host;
    host.queue = withMembers(queue, { stats: () => ({ ...queue.stats(), records: 1 }) });
  },
  [laws.rests]: ({ cores }) => {
    const core = first(cores);
    if (core.ingest)
      core.ingest = { ...core.ingest, gauges: () => ({ inFlightBytes: 1, openStreams: 0 }) };
  },
  [laws.noFalseCopy]: ({ server: { tables } }) => {
    const { hostId, queueHex } = first(tables.envelopes);
    tables.records.push({ hostId, queueHex, action: "queue.forked", details: {} });
  },
  [laws.countsOnce]: ({ hosts }) => {
    const { disk } = first(hosts);
    if (disk.image)
      disk.image = { ...disk.image, state: { ...disk.image.state, deadLetters: 1_000 } };
  },
  [accountLaws.accounted]: ({ server: { tables } }) =>
    void tables.accounts.splice(
      0,
      tables.accounts.length,
      ...tables.accounts.filter(({ accepted }) => !accepted),
    ),
  [accountLaws.hasStored]: (lab) => withAccount(lab, (account) => ({ ...account, stored: 0n })),
  [accountLaws.named]: ({ server: { tables } }) => void tables.envelopes.pop(),
  [accountLaws.noFalseLoss]: (lab) => withAccount(lab, (account) => ({ ...account, missing: 1n })),
  [accountLaws.accepted]: (lab) =>
    withAccount(lab, (account) => ({ ...account, refused: "number_used" })),
  [accountLaws.arrives]: ({ hosts }) => {
    const host = first(hosts);
    const { queue } = host;
    host.queue = withMembers(queue, { accounts: { ...queue.accounts, pendingThrough: () => 1 } });
  },
  [accountLaws.isBehind]: (lab) => withAccount(lab, (account) => ({ ...account, xid: 0n })),
  [accountLaws.counted]: (lab) =>
    withAccount(lab, (account) => ({ ...account, is_checked: false })),
  [accountLaws.isOpen]: ({ server: { tables } }) => {
    for (const [name, queue] of tables.queues)
      tables.queues.set(name, { ...queue, endedAt: 0, ending: "closed" });
  },
  [accountLaws.bySource]: ({ server: { tables } }) => tables.volumes.clear(),
  [hourLaws.isShort]: (lab) => {
    lab.server.tables.envelopes.splice(0);
    withAccounts(lab, {});
  },
  [hourLaws.counts]: (lab) => {
    withAccounts(lab, {});
    const { written } = first(lab.hosts).disk.ledger;
    const { envelopes } = lab.server.tables;
    const stored = new Set(envelopes.map(({ text }) => text));
    for (const text of written.keys()) if (!stored.has(text)) written.delete(text);
    const [[, record]] = [...written] as [[string, { sequence: number; wallMs: number }]];
    for (let sequence = 1_000_000; sequence < 1_000_100; sequence++) {
      written.set(`more ${sequence}`, record);
      envelopes.push({ ...first(envelopes), text: `more ${sequence}`, sequence });
    }
  },
  [hourLaws.isStored]: (lab) => withAccounts(lab, { stored: 0n }),
  [hourLaws.isIncomplete]: (lab) => {
    lab.server.tables.envelopes.splice(0);
    withAccounts(lab, { is_checked: false });
  },
  [hourLaws.addsUp]: (lab) => {
    lab.server.tables.envelopes.splice(0);
    withAccount(lab, (account) => ({ ...account, rejected: 1n }));
  },
  [hourLaws.noFalseMissing]: (lab) =>
    withAccount(lab, (account) => ({ ...account, missing: 1_000n })),
  [hourLaws.storesOnce]: ({ server: { tables } }) => {
    tables.envelopes.push({ ...first(tables.envelopes), sequence: 1_000_000 });
  },
  [objectLaws.has]: ({ bucket }) => {
    const { objects } = bucket?.state ?? {};
    for (const [name, bytes] of objects ?? [])
      objects?.set(
        name,
        bytes.map((byte) => byte ^ 1),
      );
  },
  [objectLaws.isStored]: ({ server: { tables } }) => {
    for (const [name, row] of tables.objects) tables.objects.set(name, { ...row, state: 2 });
  },
  [objectLaws.isKnown]: ({ bucket }) => void bucket?.state.objects.set("o/x", new Uint8Array()),
  [objectLaws.describes]: ({ bucket }) => {
    const { objects } = bucket?.state ?? {};
    for (const [name, bytes] of objects ?? []) objects?.set(name, bytes.subarray(0, -1));
  },
  [objectLaws.adopts]: ({ server }) => {
    const backup = server.backUp();
    backup.envelopes.shift();
    server.restore(backup);
  },
  "telemetry waits for no account": async (lab) => {
    const { disk } = first(lab.hosts);
    const row = { first: 1, last: 1, bytes: 1, ageMs: 0, block: joinBlock([]) };
    if (disk.image) disk.image = { ...disk.image, rows: [row] };
    await withStats(lab, { records: 1 });
    await passSeconds(lab.world, 50);
  },
  "what is stored is exported": ({ backend }) => void backend.accepted.splice(0, 10),
  "exported in order": ({ backend }) => void backend.accepted.reverse(),
  "sent again only for a reason": ({ backend }) =>
    void backend.accepted.push(first(backend.accepted)),
  "few are sent again": ({ backend, limits }) => {
    limits.bufferBytesMax = 0;
    for (const accepted of [...backend.accepted])
      backend.accepted.push({ ...accepted, term: `${accepted.term}0` });
  },
  "only what is rejected becomes a dead letter": ({ server: { tables } }) =>
    void tables.deadLetters.push({
      host_id: "a host",
      queue_id: new Uint8Array(16),
      sequence: 1n,
      reason: "none",
    }),
  "what is stored is passed once": ({ server: { tables } }) => {
    for (const [name, position] of tables.positions)
      tables.positions.set(name, { ...position, passed: 1n });
  },
  "an export at rest reports no lag": ({ server: { tables } }) => {
    tables.stored += 1;
  },
  "memory is bounded": ({ exporters }) => {
    first(exporters).bufferedMax = () => 1e9;
  },
  "a core keeps to its memory": async ({ cores, world }) => {
    const core = first(cores);
    if (core.ingest)
      core.ingest = { ...core.ingest, gauges: () => ({ inFlightBytes: 1e9, openStreams: 0 }) };
    await passSeconds(world, 2);
  },
  "a queue keeps to its limit": (lab) => withStats(lab, { bytes: 1e9, atRisk: true }),
  "health is told within its time": (lab) =>
    withStats(lab, { bytes: first(lab.hosts).queue.stats().maxBytes }),
  "totals only grow": async (lab) => {
    await withStats(lab, { droppedRecordsTotal: 5 });
    await withStats(lab, { droppedRecordsTotal: 4 });
  },
  "a collector that can connects": async ({ hosts, world }) => {
    const host = first(hosts);
    const { forwarder } = host;
    host.forwarder = { ...forwarder, status: () => ({ ...forwarder.status(), connected: false }) };
    await passSeconds(world, 90);
  },
};

const quiet = { seed: 7, faults: [] };
/** One whose cores store in a bucket. */
const quietBucket = { seed: 9, faults: [] };

it("the histories that are falsified break no law", async () => {
  expect((await simulate(quiet)).breaches).toEqual([]);
  expect((await simulate(quietBucket)).breaches).toEqual([]);
});

it("names each copy of a machine differently, and a copy of a copy: laws tell them apart by their names", async () => {
  let machines: string[] = [];
  await simulate(quiet, {}, (lab) => {
    const host = first(lab.hosts);
    lab.copy(host);
    lab.copy(lab.hosts.at(-1) ?? host);
    lab.copy(host);
    machines = lab.hosts.map(({ machine }) => machine);
  });
  expect(new Set(machines).size).toBe(machines.length);
});

it("names what its queue gave up of an account, also when this follows a fork or two", async () => {
  const { breaches } = await simulate({ seed: 8, faults: [] }, {}, async (lab) => {
    const { world, oracle, server } = lab;
    const host = first(lab.hosts);
    const run = <Result>(act: () => Result) => world.as(host.process, act);
    host.stop(1_000);
    await passSeconds(world, 10);
    const text = oracle.produce(host.machine);
    // Larger than what core takes.
    const attributes = { padding: "-".repeat(2_400) };
    const payload = Buffer.from(text);
    const record = { kind: "log_line", observedAtMs: 0, source: "file", payload, attributes };
    run(() => host.queue.append([record]).then(() => oracle.acknowledge(host.hostId, [text])));
    await passSeconds(world, 10);
    run(() => void host.offer());
    await passSeconds(world, 5);
    oracle.copied(host.hostId);
    run(() => host.queue.fork());
    run(() => host.queue.fork());
    host.kill({ isPowerCut: false });
    await passSeconds(world, 1);
    host.start();
    await passSeconds(world, 70);
    for (const { endAccounts } of lab.hosts) endAccounts();
    await passSeconds(world, 10);
    const account = server.tables.accounts.findLast(({ accepted }) => Number(accepted) === 2);
    expect(account).toMatchObject({ stored: 0n, missing: 1n, is_checked: true });
  });
  expect(breaches).toEqual([]);
});

it("counts a record under both ids of a queue whose host, on a full disk, kept neither its ack nor that of its account", async () => {
  const { breaches, notes } = await simulate({ seed: 8, faults: [] }, {}, async (lab) => {
    const { world, oracle, server } = lab;
    const host = first(lab.hosts);
    server.process.suspendedUntil = world.now() + 8_000;
    void host.offer();
    await passSeconds(world, 1);
    host.stop(60_000);
    await passSeconds(world, 7);
    oracle.copied(host.hostId);
    host.disk.failure = "full";
    host.start();
    await passSeconds(world, 5);
    host.kill({ isPowerCut: true });
    host.disk.failure = undefined;
    host.start();
  });
  expect(notes.some(({ text }) => text.includes("continues as queue"))).toBe(true);
  expect(breaches).toEqual([]);
});

it.each(Object.entries(falsified))("the oracle names that not: %s", async (law, falsify) => {
  const isOfObjects = Object.values<string>(objectLaws).includes(law);
  const { breaches } = await simulate(isOfObjects ? quietBucket : quiet, {}, falsify);
  expect(breaches.map((breach) => breach.law)).toContain(law);
});

it("every law has a falsified history", () => {
  const sources = ["export-laws.ts", "watch-laws.ts"].map((name) =>
    readFileSync(new URL(name, import.meta.url), "utf8"),
  );
  const others = [...sources.join("").matchAll(/(?:law: |add\(\s*)"([^"]+)"/g)].map(
    ([, law]) => law,
  );
  const named = [laws, accountLaws, hourLaws, objectLaws].flatMap((some) => Object.values(some));
  expect(Object.keys(falsified).toSorted()).toEqual([...new Set([...named, ...others])].toSorted());
});
