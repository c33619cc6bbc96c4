/** Collects what the hosts of a fleet do. */
export class FleetFigures {
  #samples: Record<string, number[]> = {};
  #failures: Record<string, number> = {};
  #late: number[] = [];

  /** Counts what succeeded, by kind: `heartbeat`, `connected`, `resumed`, `opened`, `renew`. */
  took(kind: string, ms: number): void {
    const samples = this.#samples[kind] ?? [];
    samples.push(ms);
    this.#samples[kind] = samples;
  }

  failed(kind: string, code: string): void {
    const name = `${kind} ${code}`;
    this.#failures[name] = (this.#failures[name] ?? 0) + 1;
  }

  /** Counts a heartbeat that began late, because this process was busy. */
  late(ms: number): void {
    this.#late.push(ms);
  }

  /** Returns the figures, and starts anew. */
  take() {
    const taken = { took: this.#samples, failures: this.#failures, late: this.#late };
    this.#samples = {};
    this.#failures = {};
    this.#late = [];
    return taken;
  }
}
