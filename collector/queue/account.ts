/** An account of a host before it has its place in a chain, and its encoding (`AccountBody` in ingest.proto), by hand as in forward/messages.ts. */
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type SourceRefusal, sourceRefusals } from "../../proto/completeness/account.ts";
import { wireTag } from "../../proto/wire.ts";
import type { RecordCount } from "./record.ts";

/** Records that a source did not accept. */
export type RefusedRecords = Pick<RecordCount, "kind" | "source" | "records">;

/** Records of one kind and source that were not accepted, for one reason. */
export interface RefusedCount extends RefusedRecords {
  readonly reason: SourceRefusal;
  records: number;
}

/** What a host did in a time. Sequences are those of the queue. */
export interface AccountContent {
  fromMs: number;
  toMs: number;
  firstSequence: number;
  /** `firstSequence` - 1 if nothing was accepted. */
  lastSequence: number;
  stopped: boolean;
  atLeast: boolean;
  accepted: RecordCount[];
  refused: RefusedCount[];
  expired: number;
  damaged: number;
  fileGapBytes: number;
  /** Gaps of any size, and those of which nobody knows the bytes. An earlier version saved accounts without them. */
  fileGaps?: number | undefined;
  fileGapsUnknown?: number | undefined;
  waitedMs: number;
  /** Sequences through this one were acknowledged under an earlier queue id; 0 for none. */
  ackedBeforeThrough: number;
  /** It is the last one of its queue. */
  ended?: boolean | undefined;
}

/** The place of an account in the chain of its queue, and who signs it. */
export interface AccountPlace {
  hostId: string;
  queueId: Uint8Array;
  number: number;
  previousSha256: Uint8Array;
  /** Empty unless the queue continues another. */
  previousQueueId: Uint8Array;
  certificateSha256: Uint8Array;
}

/** An account as it is sent. */
export interface SealedAccount {
  readonly number: number;
  readonly lastSequence: number;
  readonly body: Uint8Array;
  readonly signature: Uint8Array;
}

/** Signs the accounts of a host. */
export interface AccountSigner {
  readonly hostId: string;
  readonly certificateSha256: Uint8Array;
  sign(payload: Uint8Array): Uint8Array;
}

const text = (number: number) => wireTag(number, WireType.LengthDelimited);
const varint = (number: number) => wireTag(number, WireType.Varint);

/** Encodes an `AccountBody`. */
export const encodeAccountBody = (content: AccountContent, place: AccountPlace): Uint8Array => {
  const writer = new BinaryWriter();
  const bytes = (field: number, value: Uint8Array) =>
    value.length > 0 && writer.uint32(text(field)).bytes(value);
  const number = (field: number, value = 0) =>
    value > 0 && writer.uint32(varint(field)).uint64(value);
  const flag = (field: number, value = false) => value && writer.uint32(varint(field)).bool(true);
  writer.uint32(text(1)).string(place.hostId);
  bytes(2, place.queueId);
  number(3, place.number);
  bytes(4, place.previousSha256);
  bytes(5, place.previousQueueId);
  number(6, content.fromMs);
  number(7, content.toMs);
  number(8, content.firstSequence);
  number(9, content.lastSequence);
  flag(10, content.stopped);
  flag(11, content.atLeast);
  for (const { kind, source, records, bytes: size } of content.accepted) {
    writer.uint32(text(12)).fork().uint32(text(1)).string(kind).uint32(text(2)).string(source);
    writer.uint32(varint(3)).uint64(records).uint32(varint(4)).uint64(size).join();
  }
  for (const { reason, kind, source, records } of content.refused) {
    writer
      .uint32(text(13))
      .fork()
      .uint32(varint(1))
      .int32(sourceRefusals.indexOf(reason) + 1);
    writer.uint32(text(2)).string(source).uint32(varint(3)).uint64(records);
    // An earlier version saved counts without it.
    if (kind) writer.uint32(text(4)).string(kind);
    writer.join();
  }
  number(14, content.expired);
  number(15, content.damaged);
  number(16, content.fileGapBytes);
  number(17, Math.round(content.waitedMs));
  number(18, content.ackedBeforeThrough);
  bytes(19, place.certificateSha256);
  flag(20, content.ended);
  number(21, content.fileGaps);
  number(22, content.fileGapsUnknown);
  return writer.finish();
};
