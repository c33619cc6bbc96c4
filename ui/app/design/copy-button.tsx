import { createSignal, onCleanup } from "solid-js";
import { Icon } from "./icon.tsx";

/** How long the button shows its outcome. */
const outcomeMs = 2000;

const blocked = "blocked by the browser: select the text to copy it";

/** Copies a text. Reports a browser that does not allow it (no secure context). */
export const CopyButton = (props: { text: string; what: string }) => {
  const [outcome, setOutcome] = createSignal("");
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  const copy = async () => {
    const copied = await navigator.clipboard?.writeText(props.text).then(
      () => true,
      () => false,
    );
    setOutcome(copied ? "copied" : blocked);
    clearTimeout(timer);
    timer = setTimeout(() => setOutcome(""), outcomeMs);
  };
  return (
    <span class="copy">
      <button
        class="button button-plain button-icon"
        type="button"
        title={`Copy ${props.what}`}
        onClick={() => void copy()}
      >
        <Icon name={outcome() === "copied" ? "check" : "copy"} />
        <span class="visually-hidden">Copy {props.what}</span>
      </button>
      <span role="status" classList={{ "visually-hidden": outcome() !== blocked }}>
        {outcome()}
      </span>
    </span>
  );
};
