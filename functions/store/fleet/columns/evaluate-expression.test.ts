import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { createEvaluator, type HostColumn } from "./evaluate-expression.ts";
import { parseExpression } from "./parse-expression.ts";

it("decides for each of many hosts by its own values, at some places too", () => {
  // More than two blocks; the condition is of few hosts in one part, and of most in another.
  const count = 20_011;
  const numbers = Float64Array.from({ length: count }, (_, place) => (place < 9000 ? place % 97 : place % 2) - 1);
  const flags = Uint8Array.from({ length: count }, (_, place) => (place % 89 === 0 || place > 15_000 ? 1 : 0));
  const columns: Record<string, HostColumn> = {
    queue_bytes: { kind: "numbers", values: numbers },
    config_invalid: { kind: "flags", values: flags },
  };
  const view = { count, column: (name: string) => columns[name] as HostColumn };
  const marked = () => new Uint8Array(count).fill(1, 8190, 8195);
  const condition = parseExpression(sql`config_invalid and not queue_bytes = 0 or queue_bytes in (select 1)`);
  const number = parseExpression(
    sql`case when config_invalid then queue_bytes + 7 when queue_bytes < 1 then 3 else 5 end`,
  );
  const marks = numbers.map((value, place) =>
    Number((flags[place] === 1 && value !== 0) || (place >= 8190 && place < 8195)),
  );
  const chosen = numbers.map((value, place) => (flags[place] === 1 ? value + 7 : value < 1 ? 3 : 5));
  const all = createEvaluator(view, marked);
  expect(all.mark(condition).join()).toBe(marks.join());
  expect(all.numbers(number).join()).toBe(chosen.join());
  const places = Uint32Array.from({ length: 17_000 }, (_, nth) => nth + 1000);
  const some = createEvaluator(view, marked, places);
  expect(some.mark(condition).join()).toBe(Array.from(places, (place) => marks[place]).join());
  expect(some.numbers(number).join()).toBe(Array.from(places, (place) => chosen[place]).join());
});
