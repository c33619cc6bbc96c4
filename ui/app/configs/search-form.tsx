import type { JSX } from "solid-js";

/** A field whose text the address holds, and the button that puts it there. */
export const SearchForm = (props: {
  name: string;
  value: string;
  maxlength: number;
  label: string;
  placeholder: string;
  spellcheck?: boolean;
  button: JSX.Element;
  onSearch: (text: string) => void;
}) => (
  <form
    class="search-form"
    onSubmit={(event) => {
      event.preventDefault();
      props.onSearch(String(new FormData(event.currentTarget).get(props.name) ?? "").trim());
    }}
  >
    <input
      class="input"
      type="search"
      name={props.name}
      value={props.value}
      maxlength={props.maxlength}
      aria-label={props.label}
      placeholder={props.placeholder}
      autocomplete="off"
      spellcheck={props.spellcheck}
    />
    <button class="button" type="submit">
      {props.button}
    </button>
  </form>
);
