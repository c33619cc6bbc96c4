import { For } from "solid-js";
import { plainText } from "../format/format.ts";

/** A sentence of core. A name between quotes keeps its own direction, so that it cannot reorder the words around it. */
export const Sentence = (props: { text: string }) => (
  <For each={plainText(props.text).split(/(?<=“)([^”]*)(?=”)/)}>
    {(part, index) => (index() % 2 === 1 ? <bdi>{part}</bdi> : part)}
  </For>
);
