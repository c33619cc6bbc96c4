import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import {
  BlockEncoding,
  ForwardRequestSchema,
  ForwardResponseSchema,
  FrameSchema,
  IngestService,
  StatusSchema,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { ProtobufError } from "#proto/wire.ts";
import {
  decodeResponse,
  encodeAccount,
  encodeBlock,
  encodeFrame,
  encodeOpen,
  encodeStatus,
  forwardPath,
  zstd,
} from "./messages.ts";

const id = (byte: number) => new Uint8Array(16).fill(byte);
const large = 2 ** 53 - 1;

it("encodes requests as the library decodes them", () => {
  expect(forwardPath).toBe(`/${IngestService.typeName}/${IngestService.method.forward.name}`);
  const open = {
    hostId: "https://fleet.test/é",
    queueId: id(1),
    sessionId: id(2),
    previousSessionIds: [id(3), id(4)],
  };
  expect(
    fromBinary(
      ForwardRequestSchema,
      encodeOpen({
        ...open,
        ackedThrough: 0,
        sentThrough: large,
        takesDirectives: true,
        leftQueues: [{ queueId: id(5), storedThrough: large, ackedThrough: 1, forked: true }],
      }),
    ).message,
  ).toMatchObject({
    case: "open",
    value: {
      ...open,
      ackedThrough: 0n,
      sentThrough: BigInt(large),
      takesDirectives: true,
      leftQueues: [
        { queueId: id(5), storedThrough: BigInt(large), ackedThrough: 1n, forked: true },
      ],
      sendsAccounts: true,
    },
  });

  const envelopes = [1n, 2n].map((sequence) => ({ sequence, kind: "log_line", payload: id(5) }));
  const encoded = envelopes.map((envelope) =>
    toBinary(FrameSchema, create(FrameSchema, { envelopes: [envelope] })),
  );
  const head = { hostId: "https://fleet.test/é", queueId: id(1) };
  expect(
    fromBinary(ForwardRequestSchema, encodeFrame({ ...head, previousSequence: large }, encoded))
      .message,
  ).toMatchObject({
    case: "frame",
    value: { ...head, previousSequence: BigInt(large), envelopes },
  });

  const data = [Uint8Array.of(1, 2), Uint8Array.of(3)];
  const block = encodeBlock(
    { ...head, previousSequence: 1, lastSequence: large, envelopes: 2, rawBytes: 300 },
    data,
  );
  const figures = {
    previousSequence: 1n,
    lastSequence: BigInt(large),
    envelopes: 2,
    rawBytes: 300,
  };
  expect(
    fromBinary(ForwardRequestSchema, Uint8Array.from(Buffer.concat(block))).message,
  ).toMatchObject({
    case: "block",
    value: { ...head, ...figures, encoding: BlockEncoding.ZSTD, data: Uint8Array.of(1, 2, 3) },
  });
});

const noResponse = {
  opened: null,
  ack: null,
  statusAnswer: null,
  directive: null,
  accountAck: null,
};

it("encodes statuses as the library decodes them", () => {
  const digest = id(6);
  const queue = {
    records: 1,
    bytes: large,
    oldestRecordAgeSeconds: 0,
    droppedRecordsTotal: 2,
    deadLetters: 3,
  };
  const usage = { rss_bytes: large, cpu_ms: 5 };
  const full = encodeStatus(7, {
    digest,
    queue,
    lastAckAgeSeconds: 4,
    usage,
    report: Uint8Array.of(9),
  });
  expect(fromBinary(ForwardRequestSchema, full)).toEqual(
    create(ForwardRequestSchema, {
      message: {
        case: "status",
        value: create(StatusSchema, {
          seq: 7n,
          digest,
          figures: {
            queueRecords: 1n,
            queueBytes: BigInt(large),
            oldestRecordAgeSeconds: 0n,
            droppedRecordsTotal: 2n,
            deadLetters: 3n,
            lastAckAgeSeconds: 4n,
            rssBytes: BigInt(large),
            cpuMs: 5n,
          },
          report: Uint8Array.of(9),
        }),
      },
    }),
  );
  const none = { ...queue, oldestRecordAgeSeconds: null };
  const brief = encodeStatus(1, {
    digest,
    queue: none,
    lastAckAgeSeconds: null,
    usage,
    report: new Uint8Array(),
  });
  const { message } = fromBinary(ForwardRequestSchema, brief);
  expect(message.value).toMatchObject({ report: new Uint8Array() });
  expect(message.case === "status" && message.value.figures).not.toHaveProperty(
    "oldestRecordAgeSeconds",
    0n,
  );
});

it("encodes accounts as the library decodes them", () => {
  const account = { body: id(7), signature: id(8) };
  for (const earlierAreLost of [false, true])
    expect(
      fromBinary(ForwardRequestSchema, encodeAccount({ ...account, earlierAreLost })).message,
    ).toMatchObject({
      case: "account",
      value: { ...account, earlierAreLost },
    });
});

it("decodes responses as the library encodes them", () => {
  const encode = (message: Parameters<typeof create<typeof ForwardResponseSchema>>[1]) =>
    toBinary(ForwardResponseSchema, create(ForwardResponseSchema, message));
  const unclaimed = {
    cursor: 0,
    leftCursors: [],
    blockEncodings: [],
    statusIntervalSeconds: 0,
    takesAccounts: false,
  };
  expect(decodeResponse(encode({ message: { case: "opened", value: {} } }))).toEqual({
    ...noResponse,
    opened: unclaimed,
  });
  const opened = {
    cursor: BigInt(large),
    blockEncodings: [BlockEncoding.NONE, BlockEncoding.ZSTD],
    leftCursors: [3n],
    statusIntervalSeconds: 60,
    takesAccounts: true,
  };
  expect(decodeResponse(encode({ message: { case: "opened", value: opened } }))).toEqual({
    ...noResponse,
    opened: { ...unclaimed, ...opened, cursor: large, leftCursors: [3] },
  });
  expect(zstd).toBe(BlockEncoding.ZSTD);
  const none = { blockEncodings: [BlockEncoding.NONE] };
  expect(decodeResponse(encode({ message: { case: "opened", value: none } }))).toEqual({
    ...noResponse,
    opened: { ...unclaimed, ...none },
  });
  const rejected = [
    { sequence: BigInt(large), code: "kind_invalid", message: "é" },
    { sequence: 7n, code: "", message: "" },
  ];
  const ack = { queueId: id(1), ackedThrough: 300n, rejected };
  expect(decodeResponse(encode({ message: { case: "ack", value: ack } }))).toEqual({
    ...noResponse,
    ack: {
      ...ack,
      ackedThrough: 300,
      rejected: rejected.map((entry) => ({ ...entry, sequence: Number(entry.sequence) })),
    },
  });
  const desiredConfig = { configId: "c", configHash: "é" };
  const answer = {
    seq: 3n,
    reportNeeded: true,
    refused: "stale_request",
    nextStatusSeconds: 60,
    renewNow: true,
  };
  const parts = {
    desiredConfig,
    sendDiag: { requestId: "r" },
    caBundles: { ingest: 2, management: 0 },
  };
  expect(
    decodeResponse(encode({ message: { case: "statusAnswer", value: { ...answer, ...parts } } })),
  ).toEqual({ ...noResponse, statusAnswer: { ...answer, seq: 3, ...parts } });
  expect(decodeResponse(encode({ message: { case: "statusAnswer", value: {} } }))).toEqual({
    ...noResponse,
    statusAnswer: {
      seq: 0,
      reportNeeded: false,
      refused: "",
      nextStatusSeconds: 0,
      renewNow: false,
      desiredConfig: null,
      sendDiag: null,
      caBundles: null,
    },
  });
  const directive = { spreadMs: 250, action: { case: "configAssigned" as const, value: {} } };
  expect(decodeResponse(encode({ message: { case: "directive", value: directive } }))).toEqual({
    ...noResponse,
    directive: { spreadMs: 250, action: "configAssigned", requestId: "" },
  });
  const request = { spreadMs: 1, action: { case: "sendDiag" as const, value: { requestId: "r" } } };
  expect(decodeResponse(encode({ message: { case: "directive", value: request } }))).toEqual({
    ...noResponse,
    directive: { spreadMs: 1, action: "sendDiag", requestId: "r" },
  });
  const accountAck = { through: BigInt(large), refused: "number_used" };
  expect(decodeResponse(encode({ message: { case: "accountAck", value: accountAck } }))).toEqual({
    ...noResponse,
    accountAck: { through: large, refused: "number_used" },
  });
  // An action of a later version.
  expect(
    decodeResponse(encode({ message: { case: "directive", value: { spreadMs: 1 } } })),
  ).toEqual(noResponse);
  expect(decodeResponse(new Uint8Array())).toEqual(noResponse);
  // Field 9, of a later version.
  expect(decodeResponse(Uint8Array.of(0x4a, 1, 0))).toEqual(noResponse);
  const whole = encode({ message: { case: "ack", value: ack } });
  for (let length = 1; length < whole.length; length++)
    expect(() => decodeResponse(whole.subarray(0, length))).toThrow(ProtobufError);
});
