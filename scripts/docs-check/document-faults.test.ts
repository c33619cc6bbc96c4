import { describe, expect, it } from "vitest";
import { documentFaults, textFaults } from "./document-faults.ts";
import { readDocument } from "./read-document.ts";

const faultsOf = (markdown: string, path = "docs/page.md") => {
  const other = readDocument(
    "docs/other.md",
    "# The other page\n\n## `svc-server` and more\n\n## Twice\n\n## Twice\n",
  );
  const page = readDocument(path, markdown);
  return documentFaults(page, {
    documents: [other, page],
    files: new Set([path, "docs/other.md", "docs/images/a.png", "tests/a.test.ts"]),
    readText: () => "runs docs/page.md",
    scripts: new Set(["docs:check"]),
  });
};
const block = (before: string, language = "sh") =>
  `${before}\n\n\`\`\`${language}\nsvc-server\n\`\`\`\n`;
const cell = (text: string) => `| a | b |\n| - | - |\n| c | ${text} |\n`;

describe("documentFaults", () => {
  it.each([
    "[a](other.md), [b](other.md#svc-server-and-more), [c](other.md#twice-1), [d](#here), [e](images/), [f](https://a.example)\n\n# Here",
    "![a](images/a.png)",
    block("<!-- run by tests/a.test.ts -->"),
    block("1. a\n\n   <!-- not run: it takes a week -->\n").replaceAll(/^(```|svc)/gm, "   $1"),
    block("text", "ts"),
    "`npx -y bun@1.4.5 run docs:check`",
    cell("1 2 3 4 5 6 7 8 9 10 `11` 12 · ·"),
    "word ".repeat(1500) + block("", "text"),
  ])("accepts %j", (markdown) => expect(faultsOf(markdown)).toEqual([]));

  it.each([
    ["[a](nowhere.md)", "leads to no file"],
    ["[a](other.md#nowhere)", "leads to no heading"],
    ["[a](#nowhere)", "leads to no heading"],
    ["| a |\n| - |\n| ![a](images/b.png) |", "leads to no file"],
    [block(""), "needs a comment"],
    [block("", "console"), "needs a comment"],
    [block("<!-- not run: -->"), "needs a comment"],
    [block("<!-- not run: why -->\n\ntext between"), "needs a comment"],
    [block("- <!-- not run: why -->"), "needs a comment"],
    [block("", ""), "names no language"],
    [block("<!-- run by tests/b.test.ts -->"), "which does not exist"],
    ["`npx -y bun@1.4.5 run nothing`", 'no script "nothing"'],
    [
      block("<!-- not run: why -->").replace("svc-server", "npx -y bun@1.4.5 run nothing"),
      'no script "nothing"',
    ],
    [cell("1 2 3 4 5 6 7 8 9 10 11 12 13"), "a table cell of 13 words"],
    ["word ".repeat(1501), "1501 words"],
  ])("rejects %j", (markdown, fault) =>
    expect(faultsOf(markdown)).toEqual([expect.stringContaining(fault)]),
  );

  it("rejects a block that is run by a file which does not mention the page", () => {
    expect(faultsOf(block("<!-- run by tests/a.test.ts -->"), "docs/new.md")).toEqual([
      expect.stringContaining("does not mention docs/new.md"),
    ]);
  });

  it("rejects a decision of more than half a page", () => {
    expect(faultsOf("word ".repeat(401), "docs/decisions/a.md")).toEqual([
      expect.stringContaining("at most 400"),
    ]);
    expect(faultsOf("word ".repeat(400), "docs/decisions/a.md")).toEqual([]);
  });

  it("lets generated pages be long", () => {
    const text = `${"word ".repeat(1501)}\n\n${cell("word ".repeat(13))}`;
    expect(faultsOf(text, "docs/problems.md")).toEqual([]);
  });
});

describe("textFaults", () => {
  const files = new Set(["functions/store/fleet/rows.ts"]);

  it("rejects paths that do not exist, in pages and in comments", () => {
    const named =
      "see functions/store/fleet/, functions/*/fleet/rows.ts and functions/store/fleet-*.ts";
    const fault = ": names functions/store/fleet-*.ts, which does not exist";
    expect(textFaults("a.md", named, files)).toEqual([`a.md${fault}`]);
    expect(textFaults("a.sql", `-- ${named}`, files)).toEqual([`a.sql${fault}`]);
    expect(textFaults("a.ts", `const a = "${named}";`, files)).toEqual([]);
  });

  it("rejects a comment of more than 150 columns", () => {
    expect(textFaults("a.ts", `// ${"-".repeat(147)}`, files)).toEqual([]);
    expect(textFaults("a.ts", `// ${"-".repeat(148)}`, files)).toEqual([
      expect.stringContaining("151 columns"),
    ]);
  });
});
