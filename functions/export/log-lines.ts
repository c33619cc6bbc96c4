import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import { hostIdentityKey } from "./attest-resources.ts";

/**
 * Encodes envelopes that are no OTLP requests, lines of files above all, as an `ExportLogsServiceRequest` with the names of OpenTelemetry's
 * semantic conventions (docs/export.md). By hand: a line is one object in a queue of thousands.
 */
export const encodeLogs = (envelopes: readonly StoredEnvelope[]): Uint8Array => {
  const request = new BinaryWriter();
  let at = 0;
  while (at < envelopes.length) {
    const first = envelopes[at] as StoredEnvelope;
    let end = at + 1;
    while (end < envelopes.length && isSameOrigin(first, envelopes[end] as StoredEnvelope)) end++;
    writeResourceLogs(request, envelopes.slice(at, end));
    at = end;
  }
  return request.finish();
};

const isSameOrigin = (one: StoredEnvelope, other: StoredEnvelope): boolean =>
  one.hostId === other.hostId && one.source === other.source;

const message = (writer: BinaryWriter, field: number, write: () => void): void => {
  writer.tag(field, WireType.LengthDelimited).fork();
  write();
  writer.join();
};

const text = (writer: BinaryWriter, field: number, value: string): void => {
  writer.tag(field, WireType.LengthDelimited).string(value);
};

const attribute = (writer: BinaryWriter, field: number, key: string, value: string): void =>
  message(writer, field, () => {
    text(writer, 1, key);
    message(writer, 2, () => text(writer, 1, value));
  });

/** `ResourceLogs`: 1 the resource, 2 the scopes; of a scope 1 its name and version, 2 the records. */
const writeResourceLogs = (writer: BinaryWriter, envelopes: readonly StoredEnvelope[]): void => {
  const [{ hostId, source }] = envelopes as [StoredEnvelope];
  message(writer, 1, () => {
    message(writer, 1, () => {
      attribute(writer, 1, "host.name", hostNameOf(hostId));
      attribute(writer, 1, "service.instance.id", hostId);
      attribute(writer, 1, hostIdentityKey, hostId);
    });
    message(writer, 2, () => {
      message(writer, 1, () => text(writer, 1, source));
      for (const envelope of envelopes) writeRecord(writer, envelope);
    });
  });
};

/** The device, the last part of an identity. */
const hostNameOf = (hostId: string): string => hostId.slice(hostId.lastIndexOf("/") + 1);

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const writeRecord = (writer: BinaryWriter, envelope: StoredEnvelope): void =>
  message(writer, 2, () => {
    const { kind, observedAt, receivedAt, attributes, payload, queueId, sequence } = envelope;
    writeBody(writer, payload);
    for (const [key, value] of Object.entries(attributes)) {
      if (key !== "file.path") attribute(writer, 6, key, value);
      else {
        attribute(writer, 6, "log.file.path", value);
        attribute(writer, 6, "log.file.name", value.slice(value.lastIndexOf("/") + 1));
      }
    }
    if (kind !== "log_line") attribute(writer, 6, "svc.kind", kind);
    // Records with one uid are duplicates, which a backend may remove.
    attribute(writer, 6, "log.record.uid", `${queueId.toHex()}-${sequence}`);
    writer
      .tag(11, WireType.Bit64)
      .fixed64(isTime(observedAt) ? observedAt * 1000n : receivedAt * 1000n);
  });

const microsecondsMax = 2n ** 64n / 1000n;

/** Whether OTLP can express a time, in nanoseconds since 1970: a host may send any from year 1 to 9999. */
const isTime = (microseconds: bigint | null): microseconds is bigint =>
  microseconds !== null && microseconds >= 0n && microseconds < microsecondsMax;

/** A body is text if it is UTF-8, which protobuf requires of text, else bytes. */
const writeBody = (writer: BinaryWriter, payload: Uint8Array): void =>
  message(writer, 5, () => {
    try {
      const line = utf8.decode(payload);
      text(writer, 1, line);
    } catch {
      writer.tag(7, WireType.LengthDelimited).bytes(payload);
    }
  });
