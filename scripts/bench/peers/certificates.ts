import { systemClock } from "#kit/clock.ts";
import { quantile } from "#scripts/lab/quantile.ts";
import {
  benchPrefix,
  createBenchCsr,
  createBenchSigner,
  insertBenchPolicy,
  insertBenchTokens,
} from "../host/enrolled-hosts.ts";
import { postEnrollment, signAll } from "../management/enroll.ts";
import { runOnEach } from "../support/bench.ts";
import { startBundledCore } from "../support/bench-core.ts";
import { connectHttps, type HttpsSender } from "../support/https-sender.ts";
import { startMeter } from "../support/processes.ts";
import { type CpuParts, microsecondsOf } from "./cpu.ts";
import type { Pair, PeerFigures, Side } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { startStepCa } from "./step-ca.ts";

/** Below the connections that PostgreSQL accepts: step-ca opens one for each request. */
const inFlight = 64;
/** A warm-up issues this share of a round's certificates. */
const warmUpShare = 1 / 3;
const perSecond = 400;

/** A certificate for a one-time token: check token and request, sign, record certificate and use, over kept TLS connections. */
export const openCertificates = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  const count = Math.round(seconds * perSecond);
  const warmUp = Math.round(count * warmUpShare);
  const requests = createRequests(count, warmUp);

  const core = defer(await startBundledCore());
  const policyId = await insertBenchPolicy(core.database.db, systemClock.now());
  const coreTokens = async (tokens: number) => {
    const options = { policyId, count: tokens, maxUses: 1, now: systemClock.now() };
    return (await insertBenchTokens(core.database.db, options)).map(({ raw }) => raw);
  };
  const ours = createIssuing({
    connect: () => connectHttps({ port: core.edgePort, ca: core.ca }),
    cpu: core.cpu,
    peakMb: core.peakMb,
    mint: (batch) => coreTokens(batch.length),
    send: (connection, { csr, deviceId }, token) =>
      postEnrollment(connection, deviceId, csr, token),
  });
  const sides: Side[] = [
    {
      name: "svc-server on PostgreSQL",
      kind: "ours",
      guarantees: "synced before the response, with an audit event",
      measure: issueRounds(requests, ours, warmUp),
    },
    await openFloor(requests),
  ];
  const program = await peers("step-ca");
  if (program !== undefined)
    for (const { name, store, guarantees } of stepCaStores) {
      const stepCa = defer(await startStepCa(program, store));
      const issuing = createIssuing({
        connect: () => connectHttps({ port: stepCa.port, ca: stepCa.ca }),
        cpu: stepCa.cpu,
        peakMb: stepCa.peakMb,
        mint: (batch) => Promise.all(batch.map(({ uri }) => stepCa.mint(uri))),
        send: (connection, { csr }, ott) =>
          connection.post("/1.0/sign", JSON.stringify({ csr, ott })),
      });
      sides.push({
        name,
        kind: "peer",
        guarantees,
        measure: issueRounds(requests, issuing, warmUp),
      });
    }
  return { work: "a certificate for a one-time token", sides };
};

const stepCaStores = [
  {
    name: "step-ca, badger",
    store: "badger",
    guarantees: "synced before the response, in a file of one server",
  },
  { name: "step-ca, PostgreSQL", store: "postgres", guarantees: "synced before the response" },
] as const;

const openFloor = async (requests: Requests): Promise<Side> => {
  const { signer } = await createBenchSigner();
  let round = 0;
  return {
    name: "check and sign",
    kind: "floor",
    guarantees: "no network, no token, nothing stored",
    measure: async () => {
      const batch = await requests(round++);
      const { cpuUs, perSecond: rate } = await signAll(
        signer,
        batch.map(({ csr }) => csr),
      );
      return { cpu_us: cpuUs, certificates_per_second: rate };
    },
  };
};

/** Returns the requests of a round. */
type Requests = (round: number) => Promise<CertificateRequest[]>;

interface CertificateRequest {
  uri: string;
  deviceId: string;
  csr: string;
}

/** Returns the requests of a round, the same for each side, after those of the warm-up in the first. */
const createRequests = (count: number, warmUp: number): Requests => {
  const rounds: CertificateRequest[][] = [];
  const create = async (round: number) => {
    const created: CertificateRequest[] = [];
    while (created.length < count + (round === 0 ? warmUp : 0)) {
      const deviceId = `host-${round}-${created.length}`;
      const csr = await createBenchCsr(deviceId);
      created.push({ uri: `${benchPrefix}${deviceId}`, deviceId, csr });
    }
    return created;
  };
  return async (round) => {
    rounds[round] ??= await create(round);
    return rounds[round];
  };
};

interface Issuer {
  connect(): Promise<HttpsSender>;
  cpu(): CpuParts;
  peakMb(): number;
  /** Creates one-time tokens, before the clock runs. */
  mint(batch: readonly CertificateRequest[]): Promise<string[]>;
  send(
    connection: HttpsSender,
    request: CertificateRequest,
    token: string,
  ): Promise<{ status: number; text: string }>;
}

/** Returns a function that obtains a batch of certificates and returns what they cost. */
const createIssuing = (issuer: Issuer) => {
  const issue = async (batch: readonly CertificateRequest[]): Promise<PeerFigures> => {
    const tokens = await issuer.mint(batch);
    const connections = await Promise.all(Array.from({ length: inFlight }, () => issuer.connect()));
    const meter = startMeter(() => issuer.cpu());
    const latencies = await runOnEach(connections, batch.length, async (connection, index) => {
      const request = batch[index];
      const token = tokens[index];
      if (request === undefined || token === undefined) throw new Error("nothing to send");
      const { status, text } = await issuer.send(connection, request, token);
      if (status !== 201 || !text.includes("BEGIN CERTIFICATE"))
        throw new Error(`no certificate: ${status} ${text}`);
    });
    const { cpu, seconds } = meter();
    for (const connection of connections) connection.close();
    return {
      ...microsecondsOf(cpu, batch.length),
      certificates_per_second: batch.length / seconds,
      p99_ms: quantile(latencies, 0.99),
      peak_mb: issuer.peakMb(),
    };
  };
  return issue;
};

/** Returns a side's `measure`: the next round's requests, after a warm-up in the first. */
const issueRounds = (
  requests: Requests,
  issue: (batch: readonly CertificateRequest[]) => Promise<PeerFigures>,
  warmUp: number,
) => {
  let round = 0;
  return async (): Promise<PeerFigures> => {
    const batch = await requests(round);
    if (round++ > 0) return issue(batch);
    await issue(batch.slice(0, warmUp));
    return issue(batch.slice(warmUp));
  };
};
