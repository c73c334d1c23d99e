"""Short forms whose full stop belongs to the word, as the Penn Treebank tool of the COCO evaluation knows them.

The lists were found by asking that tool about every spelling of up to four letters and about 600,000 longer ones.
"""


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


NEVER_LAST = _set_of(
    "adj adm adv alex assoc asst atty ave brig capt cf cie cmdr col comdr cpl dept det dr drs elec ens ft gen gov govs "
    "hon insp invt jos lieut lt maj messrs mlle mme mr mrs ms msgr mt natl pfc ph pres prof profs pvt rep reps rev sen "
    "sens sfc sgt spc st ste supt treas vs wm"
)
"""Titles and the like: another word follows ("Mr. Smith")."""

MAYBE_LAST = _set_of(
    "al ala apr ariz assn aug bancorp bhd bldg blvd bros calif co colo conn corp cos ct dak dec esq est etc ext feb "
    "fla fri ga inc ind intl jan jr jul jun kan kans ky ltd mar md mich minn mo mon mont neb nev nov oct okla penn "
    "plc rd rt sep sept seq sq sr sys tel tenn thu thurs tue tues univ va vt wed wis wisc wyo"
)
"""Those that may also end a sentence ("and so on, etc.")."""

CAPITALISED = _set_of("ark az del ill la mass miss ore pa tex wash")
"""States whose short form is a word of its own in lower case: "Miss." is Mississippi, "miss." is not."""

BEFORE_NUMBER = _set_of("art ca fig figs no nos op pp prop")
"""Short forms only where a number follows: "no. 5" against "oh no."."""

SENTENCE_STARTS = _set_of(
    "a about according additionally after an as at but earlier he her here however if in it last many more now once "
    "one other our she since so some such that the their then there these they this we what when while yet you"
)
"""Words that, capitalised, show that a letter before a full stop ended a sentence and was no initial."""

ALL = NEVER_LAST | MAYBE_LAST | CAPITALISED | BEFORE_NUMBER
