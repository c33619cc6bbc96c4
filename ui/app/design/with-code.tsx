import { For } from "solid-js";

/** A sentence whose commands and settings, between backticks, are set as code. */
export const WithCode = (props: { text: string }) => (
  <For each={props.text.split("`")}>
    {(part, index) => (index() % 2 === 1 ? <code class="marked">{part}</code> : part)}
  </For>
);
