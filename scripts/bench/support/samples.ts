import { quantile } from "#scripts/lab/quantile.ts";
import { rounded } from "./bench.ts";

/** Milliseconds of calls, by name. `of` is a name, or else the start of several. */
export class Samples {
  readonly #byName = new Map<string, number[]>();

  count(of = ""): number {
    return this.#select(of).length;
  }

  async time<Result>(name: string, call: () => Promise<Result>): Promise<Result> {
    const startedAt = performance.now();
    const result = await call();
    const samples = this.#byName.get(name) ?? [];
    samples.push(performance.now() - startedAt);
    this.#byName.set(name, samples);
    return result;
  }

  quantile(fraction: number, of = ""): number {
    return rounded(quantile(new Float64Array(this.#select(of)), fraction), 1);
  }

  p95(of = ""): number {
    return this.quantile(0.95, of);
  }

  #select(of: string): number[] {
    const named = [...this.#byName].filter(([name]) => name.startsWith(of));
    return this.#byName.get(of) ?? named.flatMap(([, samples]) => samples);
  }

  /** The three names with the highest medians. */
  slowest(of = ""): Record<string, number> {
    const medians = [...this.#byName]
      .filter(([name]) => name.startsWith(of))
      .map(
        ([name, samples]) =>
          [name.slice(of.length), rounded(quantile(new Float64Array(samples), 0.5), 1)] as const,
      );
    return Object.fromEntries(medians.sort(([, a], [, b]) => b - a).slice(0, 3));
  }
}
