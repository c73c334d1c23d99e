from sct.data.halves import in_report_half


def test_halves_are_recorded():
    chosen = [number for number in range(1000) if in_report_half(str(number))]
    assert (len(chosen), chosen[:5]) == (514, [0, 1, 2, 5, 6])


def test_id_and_file_name_are_in_the_same_half():
    assert all(in_report_half(str(number)) == in_report_half(f"{number:012}.jpg") for number in range(100))
