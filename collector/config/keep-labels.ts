import { parseDocument } from "yaml";
import type { Labels } from "../../proto/labels.ts";

/**
 * Returns a config's text with `labels` in place of its own; without labels, the text as it is. Keeps comments. The hash of the config
 * stays the same, as labels do not count.
 */
export const keepLabels = (text: string, labels: Labels): string => {
  if (Object.keys(labels).length === 0) return text;
  const document = parseDocument(text, { version: "1.2", schema: "core", merge: false });
  document.set("labels", document.createNode(labels));
  return document.toString({ lineWidth: 0 });
};
