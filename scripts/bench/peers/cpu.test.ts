import { expect, it } from "vitest";
import { microsecondsOf } from "./cpu.ts";

it("adds up the CPU time of all parts, and shows each that worked", () => {
  expect(microsecondsOf({ core: 0.5, postgres: 0.25, edge: 0 }, 1000)).toEqual({
    cpu_us: 750,
    cpu_core_us: 500,
    cpu_postgres_us: 250,
  });
});

it("shows no parts of a single program", () => {
  expect(microsecondsOf({ peer: 1 }, 1000)).toEqual({ cpu_us: 1000 });
});
