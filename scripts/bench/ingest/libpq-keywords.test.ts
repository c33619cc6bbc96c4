import { expect, it } from "vitest";
import { libpqKeywords } from "./libpq-keywords.ts";

it("returns the folder of the socket, port, user and database of a URL", () => {
  expect(libpqKeywords("postgres://postgres@%2Ftmp%2Fpg-1:5432/bench")).toBe(
    "host=/tmp/pg-1 port=5432 user=postgres dbname=bench",
  );
});
