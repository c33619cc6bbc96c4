/*
 * Heartbeats on the forwarder's stream, as statuses (docs/protocol.md). Invariant: a heartbeat that core has not accepted there is sent by
 * HTTP, because only that response reports why core rejects one.
 */
import { createHash } from "node:crypto";
import { type Clock, minuteMs, withTimeout } from "#kit/clock.ts";
import type { HeartbeatReport } from "#proto/management/heartbeat.ts";
import { type ReportedNumber, reportedNumbers } from "#proto/management/reported-numbers.ts";
import type { Forwarder } from "../forward/forwarder.ts";
import type { Status, StatusAnswer } from "../forward/messages.ts";
import type { HeartbeatReply } from "./heartbeat-sender.ts";

/** Heartbeats on a stream. */
interface StreamHeartbeats {
  /** Sends a heartbeat; resolves with core's answer, or undefined if this one must be sent by HTTP. Never rejects. */
  send(): Promise<HeartbeatReply | undefined>;
  /** Reports whether a stream accepts heartbeats, and the report has changed since core accepted the last one. */
  isChanged(): boolean;
  /** Makes the next heartbeat carry the whole report. */
  renewReport(): void;
}

/** A report, and the figures that its status carries. */
interface ComposedHeartbeat {
  report: HeartbeatReport;
  status: Pick<Status, "queue" | "lastAckAgeSeconds" | "usage">;
}

/** How long after core has accepted a report a heartbeat may send only its digest. */
const reportIntervalMs = 10 * minuteMs;
/** How long a heartbeat waits for the first stream to open. */
const openTimeoutMs = 5_000;

/** Creates the heartbeats on the streams of a forwarder. */
export const createStreamHeartbeats = (options: {
  forwarder: Pick<Forwarder, "settled" | "takesStatus" | "sendStatus">;
  compose: () => ComposedHeartbeat;
  /** Returns the signed body of a heartbeat. */
  sign: (report: HeartbeatReport) => Promise<object>;
  answerTimeoutMs: number;
  clock: Clock;
}): StreamHeartbeats => {
  const { forwarder, compose, sign, answerTimeoutMs, clock } = options;
  let accepted: { digest: Uint8Array; sentAt: number } | undefined;

  const isAccepted = (digest: Uint8Array): boolean =>
    accepted !== undefined &&
    Buffer.compare(accepted.digest, digest) === 0 &&
    clock.monotonic() - accepted.sentAt < reportIntervalMs;

  const post = (status: Status): Promise<StatusAnswer> =>
    withTimeout(answerTimeoutMs, clock, forwarder.sendStatus(status));

  const exchange = async (): Promise<StatusAnswer> => {
    const { report, status } = compose();
    const digest = digestOf(report);
    if (isAccepted(digest)) {
      const answer = await post({ ...status, digest, report: new Uint8Array() });
      if (!answer.reportNeeded) return answer;
    }
    accepted = undefined;
    const sentAt = clock.monotonic();
    const answer = await post({
      ...status,
      digest,
      report: Buffer.from(JSON.stringify(await sign(report))),
    });
    if (answer.refused === "") accepted = { digest, sentAt };
    return answer;
  };

  return {
    async send() {
      await withTimeout(openTimeoutMs, clock, forwarder.settled()).catch(() => undefined);
      if (!forwarder.takesStatus()) return undefined;
      const answer = await exchange().catch(() => undefined);
      if (answer === undefined || answer.refused !== "" || answer.reportNeeded) return undefined;
      const { nextStatusSeconds, desiredConfig, renewNow, sendDiag, caBundles } = answer;
      return {
        next_heartbeat_seconds: nextStatusSeconds,
        desired_config: desiredConfig && {
          config_id: desiredConfig.configId,
          config_hash: desiredConfig.configHash,
        },
        renew_now: renewNow,
        ...(sendDiag && { send_diag: { request_id: sendDiag.requestId } }),
        ...(caBundles && { ca_bundles: caBundles }),
      };
    },
    isChanged: () =>
      forwarder.takesStatus() &&
      accepted !== undefined &&
      Buffer.compare(accepted.digest, digestOf(compose().report)) !== 0,
    renewReport: () => {
      accepted = undefined;
    },
  };
};

const queueNumbers = Object.entries(reportedNumbers.queue) as [
  keyof typeof reportedNumbers.queue,
  ReportedNumber,
][];
/** The numbers of the queue that no status carries. */
const digestedNumbers = queueNumbers.flatMap(([name, { status }]) =>
  status === undefined ? [name] : [],
);

/** Digests a report without its times, and without the figures that each status carries. */
const digestOf = ({
  collector,
  queue,
  forwarder,
  renewal,
  process: _,
  ...rest
}: HeartbeatReport) => {
  const { started_at: __, ...program } = collector;
  const { connected, last_error: forwarderError } = forwarder;
  const { status, last_error: renewalError } = renewal;
  const queueState = [...digestedNumbers.map((name) => queue[name]), queue.at_risk];
  const content = [rest, program, queueState, connected, forwarderError, status, renewalError];
  return createHash("sha256").update(JSON.stringify(content)).digest();
};
