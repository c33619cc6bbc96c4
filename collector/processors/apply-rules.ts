import { batchRecords } from "../queue/envelope.ts";
import type { NewRecord, RecordBatch, RuleCount, RuledRecords } from "../queue/record.ts";
import { lineSeverity, type RecordRule, type RuleItem } from "./rule.ts";

/** Records after the rules, and what these took. */
interface RuledBatch {
  readonly batch: RecordBatch;
  readonly ruled: RuledRecords;
}

/** Counts what a rule took of a record. */
type Count = (taken: keyof RuledRecords, rule: RecordRule, record: NewRecord) => void;

/** Applies rules to records, in their order. Returns the batch itself if no rule concerns one of them. */
export const applyRules = (rules: readonly RecordRule[], batch: RecordBatch): RuledBatch => {
  const { ruled, count } = createCounts();
  const kept: NewRecord[] = [];
  for (let index = 0; index < batch.count; index++) {
    const record = batch.recordAt(index);
    const after = applyToLine(rules, record, count);
    if (after !== undefined) kept.push(after);
  }
  const isChanged = ruled.filtered.length + ruled.redacted.length > 0;
  return { batch: isChanged ? batchRecords(kept) : batch, ruled };
};

const createCounts = () => {
  const ruled: Record<keyof RuledRecords, RuleCount[]> = { filtered: [], redacted: [] };
  const count: Count = (taken, { name: rule }, { kind, source }) => {
    const found = ruled[taken].find(
      (each) => each.rule === rule && each.kind === kind && each.source === source,
    );
    if (found) found.records += 1;
    else ruled[taken].push({ rule, kind, source, records: 1 });
  };
  return { ruled, count };
};

const utf8 = new TextDecoder();

/** Returns a line after the rules; undefined if one drops it. A request of OTLP stays as it is. */
const applyToLine = (
  rules: readonly RecordRule[],
  record: NewRecord,
  count: Count,
): NewRecord | undefined => {
  const { kind, attributes, payload } = record;
  if (kind.startsWith("otel_")) return record;
  const text = utf8.decode(payload);
  const item: RuleItem = { attributes, text, severity: () => lineSeverity(attributes, text) };
  for (const rule of rules)
    if (!rule.keeps(item)) {
      count("filtered", rule, record);
      return undefined;
    }
  return record;
};
