import type { ProcessorConfig } from "#proto/collector-config/parse.ts";
import { batchRecords } from "../queue/envelope.ts";
import type { NewRecord, RecordBatch, RuleCount, RuledRecords } from "../queue/record.ts";
import { createRule, lineSeverity, type RecordRule } from "./rule.ts";

/** Records after the rules, and what these took. */
interface RuledBatch {
  readonly batch: RecordBatch;
  readonly ruled: RuledRecords;
}

/** Counts what a rule took: records, or items of an OTLP request. */
export type CountTaken = (taken: keyof RuledRecords, rule: RecordRule) => void;

/** Counts what a rule took of a record. */
type CountTakenOf = (record: NewRecord, ...call: Parameters<CountTaken>) => void;

/** Creates what applies rules to records, in their order. It returns the batch itself if no rule concerns one of them. */
export const createRules = async (
  configs: readonly ProcessorConfig[],
  { hasRequests }: { hasRequests: boolean },
): Promise<(batch: RecordBatch) => RuledBatch> => {
  const rules = await Promise.all(configs.map(createRule));
  const requests = hasRequests ? await import("./apply-to-request.ts") : undefined;
  const apply = (record: NewRecord, count: CountTakenOf): NewRecord | undefined => {
    if (!record.kind.startsWith("otel_")) return applyToLine(rules, record, count);
    if (requests === undefined) return record;
    return requests.applyToRequest(rules, record, (...call) => count(record, ...call));
  };
  return (batch) => {
    const { ruled, count } = createCounts();
    const kept: NewRecord[] = [];
    const payloads: (Uint8Array | undefined)[] = [];
    let isChanged = false;
    let hasAttributes = false;
    for (let index = 0; index < batch.count; index++) {
      const record = batch.recordAt(index);
      const after = apply(record, count);
      payloads.push(after?.payload);
      if (after !== undefined) kept.push(after);
      isChanged ||= after !== record;
      hasAttributes ||= after !== undefined && after.attributes !== record.attributes;
    }
    if (!isChanged) return { batch, ruled };
    const edited = hasAttributes ? undefined : batch.withPayloads?.(payloads);
    return { batch: edited ?? batchRecords(kept), ruled };
  };
};

const createCounts = () => {
  const ruled: Record<keyof RuledRecords, RuleCount[]> = { filtered: [], redacted: [] };
  const count: CountTakenOf = ({ kind, source }, taken, { name: rule }) => {
    const found = ruled[taken].find(
      (each) => each.rule === rule && each.kind === kind && each.source === source,
    );
    if (found) found.records += 1;
    else ruled[taken].push({ rule, kind, source, records: 1 });
  };
  return { ruled, count };
};

const textOf = ({ buffer, byteOffset, length }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, length).toString();

/** Returns a line after the rules, which is the same object if none changes it; undefined if one drops it. */
const applyToLine = (
  rules: readonly RecordRule[],
  record: NewRecord,
  count: CountTakenOf,
): NewRecord | undefined => {
  const before = textOf(record.payload);
  let { attributes } = record;
  let text = before;
  for (const rule of rules) {
    const { keeps, redact, set } = rule;
    if (keeps) {
      const severity = () => lineSeverity(attributes, text);
      if (keeps({ attributes, text, severity, traceId: attributes.trace_id })) continue;
      count(record, "filtered", rule);
      return undefined;
    }
    if (redact) {
      const redacted = { text: redact(text), attributes: redactValues(attributes, redact) };
      if (redacted.text === text && redacted.attributes === attributes) continue;
      count(record, "redacted", rule);
      attributes = redacted.attributes;
      text = redacted.text;
    }
    if (set) attributes = { ...attributes, ...set };
  }
  if (text === before) return attributes === record.attributes ? record : { ...record, attributes };
  return { ...record, attributes, payload: Buffer.from(text) };
};

/** Returns attributes with redacted values; the same object if none changes. */
const redactValues = (
  attributes: NewRecord["attributes"],
  redact: (text: string) => string,
): NewRecord["attributes"] => {
  let redacted = attributes;
  for (const name in attributes) {
    const before = attributes[name] ?? "";
    const value = redact(before);
    if (value !== before) redacted = { ...redacted, [name]: value };
  }
  return redacted;
};
