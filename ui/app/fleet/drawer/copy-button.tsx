import { createSignal, onCleanup } from "solid-js";
import { Icon } from "../../icons/icon.tsx";

/** How long the button says what became of it. */
const toldMs = 2000;

/** Copies a text. Where the browser does not allow it (no secure context), it says so. */
export const CopyButton = (props: { text: string; what: string }) => {
  const [outcome, setOutcome] = createSignal<"" | "copied" | "not allowed here">("");
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  const copy = async () => {
    const copied = await navigator.clipboard?.writeText(props.text).then(
      () => true,
      () => false,
    );
    setOutcome(copied ? "copied" : "not allowed here");
    clearTimeout(timer);
    timer = setTimeout(() => setOutcome(""), toldMs);
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
      <span role="status" classList={{ "visually-hidden": outcome() !== "not allowed here" }}>
        {outcome()}
      </span>
    </span>
  );
};
