/**
 * Statuses of hosts on their streams, and directives to them. Invariants: a stream has one unanswered status at most; a status that fails
 * ends no stream, since telemetry does not depend on it; what a status means is decided by the code of the heartbeat by HTTP.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { Clock } from "#kit/clock.ts";
import { mapValues } from "#kit/map-values.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import {
  type Directive,
  DirectiveSchema,
  type Status,
  type StatusAnswer,
  StatusAnswerSchema,
  type StatusFigures,
  StatusFiguresSchema,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { managementBytesMax } from "#proto/management/proof.ts";
import { reportedNumbers } from "#proto/management/reported-numbers.ts";
import type { HeartbeatAnswer } from "../domain/fleet/heartbeat.ts";
import type { BriefStatus } from "../domain/fleet/status.ts";
import { Problem } from "../problems.ts";
import type { HostDirective } from "../store/certificate/identities.ts";
import { minuteCountMax, spacingSecondsOf } from "../store/certificate/proof-uses.ts";
import { databaseProblem } from "../store/database/problem.ts";
import type { Caller } from "./admission.ts";
import type { ByteBudget } from "./byte-budget.ts";

/** Where statuses are decided on and stored. */
export interface StatusRegister {
  /** How often a host sends one. */
  intervalSeconds: number;
  /** Accepts a signed report as `POST /v1/collector/heartbeat` does, and keeps its digest. Throws a Problem. */
  accept(
    caller: Caller,
    report: Uint8Array<ArrayBuffer>,
    digest: Uint8Array<ArrayBuffer>,
  ): Promise<HeartbeatAnswer>;
  /** Counts a status without a report, or returns that core needs one. Throws a Problem. */
  record(caller: Caller, status: BriefStatus): Promise<HeartbeatAnswer | "report_needed">;
}

/** What core sends to a host beside acks. */
type StatusMessage =
  | { case: "statusAnswer"; value: StatusAnswer }
  | { case: "directive"; value: Directive };

/** Sends a message on a stream, in place of an unsent one of the same kind. */
type SendAside = (message: StatusMessage, kind: string) => void;

/** The statuses of one stream. */
interface StatusChannel {
  /** Makes the stream one that directives to its host are sent on. */
  takeDirectives(): void;
  /** Decides on a status and sends the answer. Throws `frame_invalid` while another one is unanswered, or if this core takes none. */
  receive(status: Status): void;
  close(): void;
}

/** The statuses of all streams of this replica. */
export type Statuses = ReturnType<typeof createStatuses>;

const actions = {
  config_assigned: () => ({ case: "configAssigned", value: {} }),
  renew_now: () => ({ case: "renewNow", value: {} }),
  report_now: () => ({ case: "reportNow", value: {} }),
  send_diag: ({ requestId = "" }) => ({ case: "sendDiag", value: { requestId } }),
} as const satisfies Readonly<
  Record<
    HostDirective["action"],
    (directive: HostDirective) => MessageInitShape<typeof DirectiveSchema>["action"]
  >
>;

type AnswerFields = MessageInitShape<typeof StatusAnswerSchema>;

const digestBytes = 32;
/** Thirty years: times that far back are still times. */
const ageSecondsMax = 1e9;

/** Creates the statuses of a replica; without a register, which needs a signer, it takes none. */
export const createStatuses = ({
  register,
  budget,
  clock,
  onFailure,
}: {
  register: StatusRegister | undefined;
  budget: Pick<ByteBudget, "reserve" | "release">;
  clock: Pick<Clock, "monotonic">;
  /** A status failed by a fault of core. */
  onFailure(cause: unknown): void;
}) => {
  const channels = new Map<string, Set<SendAside>>();
  const turns = createTokenBuckets({
    burst: minuteCountMax,
    perSecond: 1 / spacingSecondsOf(register?.intervalSeconds),
    clock,
  });

  const decide = async (
    { accept, record }: StatusRegister,
    caller: Caller,
    { digest, figures, report }: Status,
  ): Promise<AnswerFields> => {
    if (!turns.take(caller.identity)) throw new Problem("rate_limited");
    if (report.length === 0) {
      const decision = await record(caller, { digest, figures: figuresOf(figures) });
      return decision === "report_needed" ? { reportNeeded: true } : answerOf(decision);
    }
    if (report.length > managementBytesMax) throw new Problem("payload_too_large");
    if (!budget.reserve(report.length)) throw new Problem("overloaded");
    try {
      return answerOf(
        await accept(caller, report as Uint8Array<ArrayBuffer>, digest as Uint8Array<ArrayBuffer>),
      );
    } finally {
      budget.release(report.length);
    }
  };

  const refusalOf = (error: unknown): AnswerFields => {
    const problem = error instanceof Problem ? error : databaseProblem(error);
    if (problem === undefined) onFailure(error);
    return { refused: problem?.code ?? "internal" };
  };

  return {
    /** 0 if this core takes none. */
    intervalSeconds: register?.intervalSeconds ?? 0,
    open(caller: Caller, send: SendAside): StatusChannel {
      let isWaiting = false;
      let isClosed = false;
      return {
        takeDirectives() {
          const { identityId } = caller;
          // A stream may end while it is opened.
          if (identityId === undefined || isClosed) return;
          channels.getOrInsertComputed(identityId, () => new Set()).add(send);
        },
        receive(status) {
          if (register === undefined)
            throw new Problem("frame_invalid", { detail: "this core takes no status" });
          if (isWaiting)
            throw new Problem("frame_invalid", {
              detail: "a status before the answer to the last one",
            });
          if (status.digest.length !== digestBytes)
            throw new Problem("frame_invalid", { detail: `a digest has ${digestBytes} bytes` });
          isWaiting = true;
          const answer = (fields: AnswerFields) => {
            isWaiting = false;
            const value = create(StatusAnswerSchema, { seq: status.seq, ...fields });
            send({ case: "statusAnswer", value }, "answer");
          };
          void decide(register, caller, status).then(answer, (error: unknown) =>
            answer(refusalOf(error)),
          );
        },
        close() {
          isClosed = true;
          const open = channels.get(caller.identityId ?? "");
          if (open?.delete(send) && open.size === 0) channels.delete(caller.identityId ?? "");
        },
      };
    },
    /** Sends a directive to those streams of its hosts that take directives. */
    direct(directive: HostDirective) {
      const { action, identityIds, spreadMs } = directive;
      const value = create(DirectiveSchema, { spreadMs, action: actions[action](directive) });
      for (const id of identityIds)
        for (const send of channels.get(id) ?? []) send({ case: "directive", value }, action);
    },
  };
};

const answerOf = ({
  nextHeartbeatSeconds,
  desiredConfig,
  renewNow,
  sendDiag,
  caBundles,
}: HeartbeatAnswer): AnswerFields => ({
  nextStatusSeconds: nextHeartbeatSeconds,
  renewNow,
  caBundles,
  ...(desiredConfig ? { desiredConfig } : {}),
  ...(sendDiag === null ? {} : { sendDiag: { requestId: sendDiag } }),
});

/** Returns the figures of a status; throws `validation_failed` for one that no JSON could hold. */
const figuresOf = (figures: StatusFigures | undefined): BriefStatus["figures"] => {
  const {
    queueRecords,
    queueBytes,
    oldestRecordAgeSeconds,
    droppedRecordsTotal,
    deadLetters,
    ...others
  } = figures ?? create(StatusFiguresSchema);
  const { lastAckAgeSeconds } = others;
  return {
    queueRecords: counter(queueRecords),
    queueBytes: counter(queueBytes),
    oldestRecordAgeSeconds: age(oldestRecordAgeSeconds),
    droppedRecordsTotal: counter(droppedRecordsTotal),
    deadLetters: counter(deadLetters),
    lastAckAgeSeconds: age(lastAckAgeSeconds),
    process: mapValues(reportedNumbers.process, ({ status }) => counterOrNull(others[status])),
  };
};

/** One host's absurd age must not fail the statement of all. */
const age = (seconds: bigint | undefined): number | null =>
  seconds === undefined ? null : Math.min(Number(seconds), ageSecondsMax);

const counterOrNull = (value: bigint | undefined): number | null =>
  value === undefined ? null : counter(value);

const counter = (value: bigint): number => {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Problem("validation_failed");
  return Number(value);
};
