/*
 * Applies rules to export requests of OTLP, item by item. Nothing is decoded but what rules ask for, since two bytes of an item can become an
 * object of hundreds. Import it dynamically: the schemas would take a seventh of the collector's start.
 */
import { WireType } from "@bufbuild/protobuf/wire";
import {
  bytesField,
  declareMessage,
  flagField,
  integerField,
  listField,
  optionalField,
  textField,
} from "#proto/declared-message.ts";
import { InstrumentationScopeSchema } from "#proto/gen/opentelemetry/proto/common/v1/common_pb.js";
import { LogRecordSchema } from "#proto/gen/opentelemetry/proto/logs/v1/logs_pb.js";
import { MetricSchema } from "#proto/gen/opentelemetry/proto/metrics/v1/metrics_pb.js";
import { ResourceSchema } from "#proto/gen/opentelemetry/proto/resource/v1/resource_pb.js";
import { SpanSchema } from "#proto/gen/opentelemetry/proto/trace/v1/trace_pb.js";
import { createWireCheck, type WireCheck } from "#proto/limits/wire-check.ts";
import { eachField, readWire, wireHead, wireTag } from "#proto/wire.ts";
import type { NewRecord } from "../queue/record.ts";
import type { CountTaken } from "./apply-rules.ts";
import type { Redact } from "./redact.ts";
import type { RecordRule, RuleItem } from "./rule.ts";

const anyValue = declareMessage({
  text: optionalField(textField(1)),
  flag: optionalField(flagField(2)),
  integer: optionalField(integerField(3)),
});
const keyValue = declareMessage({ key: textField(1), value: anyValue.field(2) });
const attributesField = (number: number) => listField(keyValue.field(number));
const resourceMessage = declareMessage({ attributes: attributesField(1) });
const scopeMessage = declareMessage({ attributes: attributesField(3) });
const spanMessage = declareMessage({ traceId: bytesField(1), attributes: attributesField(9) });
const logMessage = declareMessage({
  severity: integerField(2),
  body: anyValue.field(5),
  attributes: attributesField(6),
  traceId: bytesField(9),
});

/** The attributes of an item's resource and scope. */
type Attributes = Readonly<Record<string, string>>;
type KeyValues = ReturnType<typeof resourceMessage.decode>["attributes"];

const withAttributes = (before: Attributes, list: KeyValues): Attributes => {
  const attributes = { ...before };
  for (const { key, value } of list)
    attributes[key] = value.text ?? String(value.flag ?? value.integer ?? "");
  return attributes;
};

/** Reads and changes the items of a kind for rules. */
interface ItemForm {
  readonly check: WireCheck;
  read(item: Uint8Array, attributes: Attributes): RuleItem;
}

const hexOf = (id: Uint8Array) => (id.length === 0 ? undefined : id.toHex());

const forms = new Map<string, ItemForm>([
  [
    "otel_log",
    {
      check: createWireCheck(LogRecordSchema),
      read: (bytes, shared) => {
        const { severity, body, attributes, traceId } = logMessage.decode(bytes);
        return {
          attributes: withAttributes(shared, attributes),
          text: body.text ?? undefined,
          severity: () => severity || undefined,
          traceId: hexOf(traceId),
        };
      },
    },
  ],
  [
    "otel_span",
    {
      check: createWireCheck(SpanSchema),
      read: (bytes, shared) => {
        const { attributes, traceId } = spanMessage.decode(bytes);
        return {
          attributes: withAttributes(shared, attributes),
          text: undefined,
          severity: () => undefined,
          traceId: hexOf(traceId),
        };
      },
    },
  ],
  [
    "otel_metric",
    {
      check: createWireCheck(MetricSchema),
      read: (_, attributes) => ({
        attributes,
        text: undefined,
        severity: () => undefined,
        traceId: undefined,
      }),
    },
  ],
]);
const resourceCheck = createWireCheck(ResourceSchema);
const scopeCheck = createWireCheck(InstrumentationScopeSchema);

/** Returns a request after the rules, which is the same object if none changes it; undefined if no item is left. */
export const applyToRequest = (
  rules: readonly RecordRule[],
  record: NewRecord,
  count: CountTaken,
): NewRecord | undefined => {
  const form = forms.get(record.kind);
  if (form === undefined) return record;

  const editItem = (item: Uint8Array, shared: Attributes): Uint8Array | undefined => {
    let edited = item;
    for (const rule of rules) {
      if (rule.redact) edited = redactTexts(form.check, edited, rule, count);
      if (rule.keeps?.(form.read(edited, shared)) !== false) continue;
      count("filtered", rule);
      return undefined;
    }
    return edited;
  };
  const editScope = (scope: Uint8Array): Uint8Array =>
    rules.reduce((edited, rule) => redactTexts(scopeCheck, edited, rule, count), scope);
  const editResource = (resource: Uint8Array): Uint8Array =>
    rules.reduce((edited, rule) => {
      const redacted = redactTexts(resourceCheck, edited, rule, count);
      return rule.set ? setAttributes(redacted, rule.set) : redacted;
    }, resource);

  const payload = editFields(record.payload, (_, ofResource) =>
    editParent(ofResource, editResource, (resource) => {
      const ofItems = withAttributes({}, resourceMessage.decode(resource).attributes);
      return (ofScope) =>
        editParent(ofScope, editScope, (scope) => {
          const shared = withAttributes(ofItems, scopeMessage.decode(scope).attributes);
          return (item) => editItem(item, shared);
        });
    }),
  );
  if (payload === record.payload) return record;
  return payload.length === 0 ? undefined : { ...record, payload };
};

/** Returns a message after one rule, and counts it if that redacts some of its texts. */
const redactTexts = (
  check: WireCheck,
  message: Uint8Array,
  rule: RecordRule,
  count: CountTaken,
): Uint8Array => {
  const { redact } = rule;
  if (redact === undefined) return message;
  const edited = check.rewriteText(message, (text) => redactBytes(text, redact));
  if (edited !== message) count("redacted", rule);
  return edited;
};

const redactBytes = (bytes: Uint8Array, redact: Redact): Uint8Array | undefined => {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();
  const redacted = redact(text);
  return redacted === text ? undefined : Buffer.from(redacted);
};

/** Returns a resource with these attributes, in place of those with the same keys. */
const setAttributes = (resource: Uint8Array, set: Attributes): Uint8Array => {
  const others = editFields(resource, (number, content) => {
    const isReplaced = number === 1 && Object.hasOwn(set, keyValue.decode(content).key);
    return isReplaced ? undefined : content;
  });
  const attributes = Object.entries(set).map(([key, text]) => ({
    key,
    value: { ...anyValue.empty(), text },
  }));
  return Buffer.concat([others, resourceMessage.encode({ attributes })]);
};

/** In a resource's or scope's part of a request: the field of the resource or scope itself, and that of the parts below it. */
const sharedField = 1;
const childrenField = 2;

/** Edits what the children of a message share, and then each of them; returns undefined if none of them is left. */
const editParent = (
  parent: Uint8Array,
  editShared: (shared: Uint8Array) => Uint8Array,
  editorOf: (shared: Uint8Array) => (child: Uint8Array) => Uint8Array | undefined,
): Uint8Array | undefined => {
  const found: Uint8Array[] = [];
  editFields(parent, (number, content) => {
    if (number === sharedField) found.push(content);
    return content;
  });
  // By the rules of protobuf, several are one.
  const before = found.length === 1 && found[0] ? found[0] : Buffer.concat(found);
  const shared = editShared(before);
  const editChild = editorOf(shared);
  let left = 0;
  let dropped = 0;
  const edited = editFields(parent, (number, content) => {
    if (number === sharedField) return shared === before ? content : undefined;
    if (number !== childrenField) return content;
    const child = editChild(content);
    if (child === undefined) dropped += 1;
    else left += 1;
    return child;
  });
  if (left === 0 && dropped > 0) return undefined;
  if (shared === before) return edited;
  const head = wireHead(wireTag(sharedField, WireType.LengthDelimited), shared.length);
  return Buffer.concat([head, shared, edited]);
};

/** Returns a message with what `edit` returns for its length-delimited fields, without those for which that is undefined. */
const editFields = (
  message: Uint8Array,
  edit: (number: number, content: Uint8Array) => Uint8Array | undefined,
): Uint8Array =>
  readWire(message, (reader) => {
    const parts: Uint8Array[] = [];
    let copied = 0;
    let fieldStart = 0;
    eachField(reader, message.length, (tag, end) => {
      const content = message.subarray(reader.pos, end);
      const isMessage = (tag & 7) === WireType.LengthDelimited;
      const edited = isMessage ? edit(tag >>> 3, content) : content;
      if (edited !== content) parts.push(message.subarray(copied, fieldStart));
      if (edited !== content && edited !== undefined)
        parts.push(wireHead(tag, edited.length), edited);
      if (edited !== content) copied = end;
      fieldStart = end;
    });
    return parts.length === 0 ? message : Buffer.concat([...parts, message.subarray(copied)]);
  });
