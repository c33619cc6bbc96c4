import { expect, it } from "vitest";
import { sentencesAfter } from "./sentences.ts";

it("announces a streamed answer in whole sentences and lines, each once", () => {
  const text = 'Three hosts are stale (v1.4.2). See "web-01".\n- one\n- two';
  const spoken: string[] = [];
  let end = 0;
  for (let length = 1; length <= text.length; length++) {
    const found = sentencesAfter(text.slice(0, length), end);
    end = found.end;
    if (found.spoken) spoken.push(found.spoken);
  }
  expect(spoken).toEqual(["Three hosts are stale (v1.4.2).", 'See "web-01".', "- one"]);
  expect(text.slice(end)).toBe("- two");
});
