import { batchRecords } from "../queue/envelope.ts";
import type { Queue } from "../queue/queue.ts";
import type { RuledRecords } from "../queue/record.ts";
import type { PositionedSourceDependencies, Source, SourceSettings } from "../sources/source.ts";

type Create = (
  config: SourceSettings,
  dependencies: PositionedSourceDependencies,
) => Source | Promise<Source>;

/**
 * Makes the sources that `create` creates append what the rules of their config leave. What a rule took is counted in the transaction that
 * stores the rest and the source's position; a record that was dropped is not read again.
 */
export const withRules =
  (create: Create) =>
  async (...[config, dependencies]: Parameters<Create>): Promise<Source> => {
    const { type, processors = [] } = config;
    if (processors.length === 0) return create(config, dependencies);
    const { createRules } = await import("./apply-rules.ts");
    const apply = await createRules(processors, {
      hasRequests: type === "otlp" || type === "host_metrics",
    });
    const counters: Record<string, number> = {};
    const append: Queue["append"] = async (records, options) => {
      const { batch, ruled } = apply("count" in records ? records : batchRecords(records));
      const outcome = await dependencies.append(batch, { ...options, ruled });
      addCounts(counters, ruled);
      return outcome;
    };
    const source = await create(config, { ...dependencies, append });
    return { ...source, counters: () => ({ ...source.counters?.(), ...counters }) };
  };

const addCounts = (counters: Record<string, number>, ruled: RuledRecords) => {
  for (const taken of ["filtered", "redacted"] as const)
    for (const { rule, records } of ruled[taken]) {
      const name = `${taken}_by_${rule.replaceAll("-", "_")}`;
      counters[name] = (counters[name] ?? 0) + records;
    }
};
